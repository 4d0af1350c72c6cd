#compdef mfgs
# Completion of mfgs for zsh: mfgs completion zsh > a folder of $fpath, as _mfgs;
# or in .zshrc, after compinit: source <(mfgs completion zsh)
# After zsh_autocomplete of github.com/urfave/cli.

_mfgs() {
    local -a asked=("${(@)words[1,CURRENT-1]}") offered
    [[ $PREFIX == -* ]] && asked+=("$PREFIX")
    offered=(${(f)"$("${asked[@]}" --generate-bash-completion 2>/dev/null)"})
    (( $#offered )) && compadd -a offered && return
    compset -P '*[=:]' # of --flag=NAME=format:path
    _files
}

# Loaded from $fpath, the file itself is the function.
if [[ "$funcstack[1]" == _mfgs ]]; then
    _mfgs "$@"
else
    compdef _mfgs mfgs
fi
