# Completion of mfgs for fish: mfgs completion fish > ~/.config/fish/completions/mfgs.fish

function __mfgs_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (command $words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    set -l head (string split \t -- $lines[1])
    printf '%s\n' $lines[2..-1]
    set -l length (string length -- "$head[2]")
    set -l path (string sub -s (math $length + 1) -- "$current")
    switch "$head[1]"
        case files
            for file in (__fish_complete_path "$path")
                printf '%s%s\n' "$head[2]" $file
            end
        case folders
            for folder in (__fish_complete_directories "$path")
                printf '%s%s\n' "$head[2]" $folder
            end
    end
end

complete -c mfgs -f -a '(__mfgs_complete)'
