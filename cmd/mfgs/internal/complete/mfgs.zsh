#compdef mfgs
# Completion of mfgs for zsh: mfgs completion zsh > a folder of $fpath, as _mfgs;
# or in .zshrc, behind compinit: source <(mfgs completion zsh)

compdef _mfgs mfgs

_mfgs() {
    local line kind before text about
    local -a lines whole open
    lines=("${(@f)$(command "${words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    kind="${lines[1]%%$'\t'*}" before="${lines[1]#*$'\t'}"
    for line in "${(@)lines[2,-1]}"; do
        text="${line%%$'\t'*}" about="${line#*$'\t'}"
        text="${text//:/\\:}"
        [[ -n $about ]] && text+=":$about"
        if [[ ${line%%$'\t'*} == *= ]]; then open+=("$text"); else whole+=("$text"); fi
    done
    (( $#whole )) && _describe 'mfgs' whole
    (( $#open )) && _describe 'mfgs' open -S ''
    case "$kind" in
        files) compset -p $#before; _files ;;
        folders) compset -p $#before; _files -/ ;;
    esac
}

# Loaded from $fpath, the file itself is the function.
if [[ "$funcstack[1]" == _mfgs ]]; then
    _mfgs "$@"
fi
