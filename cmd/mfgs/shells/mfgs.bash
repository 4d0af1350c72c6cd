# Completion of mfgs for bash 3.2 and newer: source <(mfgs completion bash)
# After bash_autocomplete of github.com/urfave/cli, which needs the package bash-completion.

_mfgs() {
    local cur="${COMP_WORDS[COMP_CWORD]}"
    local -a words=("${COMP_WORDS[@]:0:COMP_CWORD}")
    # Bash splits --flag=value at the equals sign.
    [[ $cur == = ]] && cur=
    [[ ${words[${#words[@]}-1]} == = ]] && unset "words[${#words[@]}-1]"
    [[ $cur == -* ]] && words+=("$cur")
    COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}

# Where mfgs offers nothing, readline completes files.
complete -o bashdefault -o default -F _mfgs mfgs
