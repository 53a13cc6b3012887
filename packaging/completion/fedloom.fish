# Completion for fish: fedloom itself says what may come next (`fedloom completion words`).
function __fedloom_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    for reply in ($typed[1] completion words -- $typed[2..-1] "$current" 2>/dev/null)
        switch $reply
            case :files
                __fish_complete_path (string replace -r '.*=' '' -- "$current")
            case :folders
                __fish_complete_directories (string replace -r '.*=' '' -- "$current") ''
            case '*'
                echo $reply
        end
    end
end
complete -c fedloom -f -a '(__fedloom_complete)'
