# Completion for bash: fedloom itself says what may come next (`fedloom completion words`).
_fedloom() {
    local line=${COMP_LINE:0:COMP_POINT} current before word reply
    local -a typed replies
    # by blanks, since bash itself also cuts at = and :, which are parts of our words
    read -ra typed <<<"$line"
    [[ $line == *[[:space:]] ]] && typed+=('')
    current=${typed[${#typed[@]} - 1]}
    COMPREPLY=()
    mapfile -t replies < <("${typed[0]/#\~\//$HOME/}" completion words -- "${typed[@]:1}" 2>/dev/null)
    # what bash takes for the beginning of the word it completes is not to be said again
    before=
    [[ $COMP_WORDBREAKS == *=* && $current == *=* ]] && before=${current%"${current##*=}"}
    for reply in "${replies[@]}"; do
        word=${reply%%$'\t'*}
        case $word in
        :files | :folders)
            compopt -o filenames 2>/dev/null
            local kind=-f
            [[ $word == :folders ]] && kind=-d
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$kind" -- "${current##*=}")
            ;;
        *)
            [[ $word == *[=.] ]] && compopt -o nospace 2>/dev/null
            COMPREPLY+=("${word#"$before"}")
            ;;
        esac
    done
}
complete -F _fedloom fedloom
