# Completion of mfgs for bash 3.2 and newer: source <(mfgs completion bash)

_mfgs() {
    local line kind before text full="" current="${COMP_WORDS[COMP_CWORD]}" i joined=
    local -a words
    # Bash takes words apart at = and :, which belong to them.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if [[ -n $joined || ${COMP_WORDS[i]} == [=:] ]] && ((${#words[@]})); then
            words[${#words[@]}-1]+="${COMP_WORDS[i]}"
        else
            words+=("${COMP_WORDS[i]}")
        fi
        joined=
        [[ ${COMP_WORDS[i]} == [=:] ]] && joined=1
    done
    full="${words[${#words[@]}-1]}"
    [[ $current == [=:] ]] && current=""

    COMPREPLY=()
    kind=none before=""
    i=0
    while IFS= read -r line; do
        text="${line%%$'\t'*}"
        if ((i++ == 0)); then
            kind="$text" before="${line#*$'\t'}"
            continue
        fi
        # What bash has cut off in front stands there already.
        COMPREPLY+=("${text:${#full}-${#current}}")
        [[ $text == *= ]] && compopt -o nospace 2>/dev/null
    done < <("$1" __complete "${words[@]}" 2>/dev/null)

    if [[ $kind == none ]]; then
        compopt +o default 2>/dev/null
    elif [[ ${#COMPREPLY[@]} -gt 0 || "$before$current" != "$full" ]]; then
        local option=-f path="${full#"$before"}"
        [[ $kind == folders ]] && option=-d
        while IFS= read -r line; do
            compopt -o filenames 2>/dev/null # and not before: in words it would quote =
            line="$before$line"
            COMPREPLY+=("${line:${#full}-${#current}}")
        done < <(compgen "$option" -- "$path")
    elif [[ $kind == folders ]]; then
        compopt -o dirnames 2>/dev/null
    fi # else readline completes files, with all that may be quoted in them
}

complete -o default -F _mfgs mfgs
