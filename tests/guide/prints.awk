# prints.awk TEXT OUTPUT: whether a command printed what the page says. Every line of TEXT has to be in OUTPUT, in this
# order; a line "..." is for what was left out, and so is "..." at the end of a line. A number with a point stands for
# any other such number: processors differ in last digits, and machines in seconds. Blanks are all alike.
function plain(line) {
    gsub(/[0-9]+\.[0-9]+(e[-+][0-9]+)?/, "#.#", line)
    gsub(/[ \t]+/, " ", line)
    sub(/^ /, "", line)
    sub(/ $/, "", line)
    return line
}
function matches(line, wanted) {
    if (wanted !~ / ?\.\.\.$/) return line == wanted
    sub(/ ?\.\.\.$/, "", wanted)
    return index(line, wanted) == 1
}
FNR == NR {
    if (plain($0) != "..." && plain($0) != "") { want[++wanted] = plain($0); as_written[wanted] = $0 }
    next
}
found < wanted && matches(plain($0), want[found + 1]) { found++ }
END {
    if (found == wanted) exit 0
    print "not printed, or not in this order: " as_written[found + 1]
    exit 1
}
