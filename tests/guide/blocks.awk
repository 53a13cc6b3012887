# Cuts a page of the guide into its blocks: NNN.KIND for each, in order, with the page's lines in NNN.at.
#   ```sh          commands that succeed, in one shell
#   ```sh fails    commands of which one fails
#   ```python      code that goes on from the block before it
#   ```text        what the block before it prints
/^```(sh|sh fails|python|text)$/ {
    kind = substr($0, 4)
    sub(/ /, "-", kind)
    name = sprintf("%03d", ++n)
    into = name "." kind
    print NR >(name ".at")
    printf "" >into
    next
}
/^```/ {
    if (into == "") { printf "%s:%d: a block of no kind that is known: %s\n", FILENAME, NR, $0 >"/dev/stderr"; exit 1 }
    into = ""
    next
}
into { print >into }
END { if (into != "") { printf "%s: the last block has no end\n", FILENAME >"/dev/stderr"; exit 1 } }
