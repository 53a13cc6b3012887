# Prints "FILE:LINE call NAME" for every command that shell code names in plain letters, "FILE:LINE guard NAME" where the code asks
# first whether a program is there (command -v), "FILE define NAME" for a function, and "FILE:LINE word NAME" for any other plain
# word, since some functions take a command as arguments. Reads shell scripts, the recipes of a Makefile (*akefile, rules), and the
# shell blocks of Markdown; of C, the words in strings. What a variable holds is not known here.
function plain(w) { return w ~ /^[A-Za-z_][A-Za-z0-9_.+-]*$/ || w == "[" || w == ":" }
function say(what, w) { print where ":" line, what, w }

# The end of a word in code: `want` is whether a command is due, `wrap` the command before it that takes one as arguments.
function word(w, opaque) {
    if (w == "" && !opaque) return
    if (skip) { skip = 0; return }
    if (pattern == 1) { if (w == "in") pattern = 2; return }
    if (!want) {
        last = w == "-c" && called !~ /^(ba)?sh$/ ? "" : w
        if (!opaque && plain(w)) say("word", w)
        return
    }
    if (w ~ /^[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=/) return
    if (opaque) { if (!(wrap != "" && takes)) want = 0; takes = 0; last = ""; return }
    if (wrap != "") {
        if (takes) { takes = 0; return }
        if (w ~ /^-/) {
            if (wrap == "command" && w ~ /^-[vV]/) guard = 1
            if ((wrap == "xargs" && w ~ /^-[PnIL]$/) || (wrap == "env" && w ~ /^-[uC]$/) || (wrap == "timeout" && w ~ /^-[ks]$/) || \
                (wrap == "nice" && w == "-n")) takes = 1
            return
        }
        if (wrap == "timeout" && !timed) { timed = 1; return }
        if (w ~ /^[0-9{}.]+$/) return
    }
    if (w ~ /^(if|then|else|elif|do|while|until|!|\{|time)$/) return
    if (w == "case") { pattern = 1; want = 0; return }
    if (w == "for" || w == "select" || w == "local" || w == "export" || w == "declare" || w == "readonly") { want = 0; last = w; return }
    if (guard) { if (plain(w)) say("guard", w); guard = 0; want = 0; wrap = ""; return }
    if (w ~ /^(fi|done|esac|\}|\[\[)$/) { want = 0; return }
    last = called = w
    if (plain(w)) say("call", w)
    if (w ~ /^(env|exec|nice|nohup|setsid|command|xargs|timeout|sudo)$/) { wrap = w; takes = timed = 0; return }
    wrap = ""
    want = 0
}
function due() { want = 1; wrap = ""; guard = takes = skip = 0; last = "" }

# Code in s, which ends at its end or, within a substitution, at its parenthesis: returns the place behind it.
function code(s, i, inner,    c, w, opaque, n, j, depth, saved, held, k, quote) {
    n = length(s)
    due()
    w = ""; opaque = 0; depth = 0
    for (; i <= n; i++) {
        c = substr(s, i, 1)
        if (c == "\\") {
            if (substr(s, i + 1, 1) == "\n") line++; else { w = w "x"; opaque = 1 }
            i++
        } else if (c == "'" || c == "\"") {
            j = i
            quote = ""
            if (c == "'") {
                j = index(substr(s, i + 1), "'") + i
                if (j == i) j = n
                quote = substr(s, i + 1, j - i - 1)
                if (last == "eval" || last == "-c") nested(quote)
                line += gsub(/\n/, "\n", quote)
            } else j = quoted(s, i + 1)
            opaque = 1
            i = j
        } else if (c == "$") {
            opaque = 1
            i = dollar(s, i)
        } else if (c == "`") {
            opaque = 1
        } else if (c == "#" && w == "" && !opaque) {
            while (i < n && substr(s, i + 1, 1) != "\n") i++
        } else if (c == "<" || c == ">") {
            if (w !~ /^[0-9]+$/) word(w, opaque)
            w = ""; opaque = 0
            if (substr(s, i, 3) == "<<<") { i += 2; skip = 1 }
            else if (substr(s, i, 2) == "<<") {
                k = substr(s, i + 2)
                match(k, /^-?[ ]*['"]?[A-Za-z0-9_]+['"]?/)
                heredoc = substr(k, 1, RLENGTH)
                tabs = heredoc ~ /^-/
                gsub(/[^A-Za-z0-9_]/, "", heredoc)
                i += 1 + RLENGTH
            } else if (substr(s, i + 1, 1) == "(") {
                i = within(s, i + 2)
                want = 0
            } else {
                while (substr(s, i + 1, 1) ~ /[>&|]/) i++
                skip = 1
            }
        } else if (c == "(") {
            if (w ~ /=$/) { i = list(s, i + 1); w = ""; opaque = 0; continue }
            if (substr(s, i, 2) == "((" && w == "") { i = arithmetic(s, i + 2); want = 0; continue }
            if (w != "" && substr(s, i + 1, 1) == ")") { print where, "define", w; w = ""; i++; due(); continue }
            w = ""; opaque = 0; depth++; due()
        } else if (c == ")") {
            if (pattern == 2) { pattern = 3; w = ""; opaque = 0; due(); continue }
            word(w, opaque); w = ""; opaque = 0
            if (depth == 0 && inner) return i
            if (depth > 0) depth--
            want = 0
        } else if (c ~ /[;&|\n \t]/) {
            if (pattern == 2) {
                if (w == "esac") pattern = 0
                w = ""; opaque = 0
                if (c == "\n") { line++; due() }
                continue
            }
            word(w, opaque)
            k = w
            w = ""; opaque = 0
            if (pattern == 3 && (substr(s, i, 2) == ";;" )) { pattern = 2; i++; continue }
            if (pattern == 3 && k == "esac") pattern = 0
            if (c == " " || c == "\t") continue
            due()
            if (c == "\n") {
                line++
                if (heredoc != "") {
                    while (i < n) {
                        j = index(substr(s, i + 1), "\n")
                        if (!j) { i = n; break }
                        k = substr(s, i + 1, j - 1)
                        i += j; line++
                        if (tabs) sub(/^\t+/, "", k)
                        if (k == heredoc) break
                    }
                    heredoc = ""
                }
            }
        } else w = w c
    }
    word(w, opaque)
    return i
}

# code, in the middle of other code.
function within(s, i,    a, b, c, d, e, f, g, h) {
    a = want; b = wrap; c = takes; d = timed; e = pattern; f = guard; g = skip; h = last
    pattern = 0
    i = code(s, i, 1)
    want = a; wrap = b; takes = c; timed = d; pattern = e; guard = f; skip = g; last = h
    return i
}
function nested(s,    l) { l = line; within(s ")", 1); line = l }

# A dollar at i: returns the last place of what it begins.
function dollar(s, i,    c) {
    c = substr(s, i + 1, 1)
    if (substr(s, i, 3) == "$((") return arithmetic(s, i + 3)
    if (c == "(") return within(s, i + 2)
    if (c == "{") return braces(s, i + 2)
    if (c == "'") { i = i + 1 + index(substr(s, i + 2), "'"); return i }
    if (c ~ /[A-Za-z0-9_?!$#@*-]/) return i + 1
    return i
}
function braces(s, i,    n, c) {
    for (n = length(s); i <= n; i++) {
        c = substr(s, i, 1)
        if (c == "}") return i
        if (c == "\\") i++
        else if (c == "$") i = dollar(s, i)
        else if (c == "\"") i = quoted(s, i + 1)
    }
    return i
}
function arithmetic(s, i,    n, c, depth) {
    depth = 2
    for (n = length(s); i <= n; i++) {
        c = substr(s, i, 1)
        if (c == "$") i = dollar(s, i)
        else if (c == "(") depth++
        else if (c == ")" && --depth == 0) return i
    }
    return i
}
function quoted(s, i,    n, c) {
    for (n = length(s); i <= n; i++) {
        c = substr(s, i, 1)
        if (c == "\"") return i
        if (c == "\n") line++
        if (c == "\\") { i++; if (substr(s, i, 1) == "\n") line++ }
        else if (c == "$") i = dollar(s, i)
    }
    return i
}
# An array's elements: words, up to the parenthesis.
function list(s, i,    n, c) {
    for (n = length(s); i <= n; i++) {
        c = substr(s, i, 1)
        if (c == ")") return i
        if (c == "\n") line++
        if (c == "\\") i++
        else if (c == "$") i = dollar(s, i)
        else if (c == "\"") i = quoted(s, i + 1)
        else if (c == "'") i += index(substr(s, i + 1), "'")
    }
    return i
}

function run(s, first) { line = first; pattern = 0; heredoc = ""; code(s, 1, 0) }
function finish() {
    if (text != "") run(text, began)
    text = ""
}
function add(s) { if (text == "") began = FNR; text = text s "\n" }

FNR == 1 {
    finish()
    where = FILENAME
    kind = FILENAME ~ /(akefile|rules)$/ ? "make" : FILENAME ~ /\.md$/ ? "text" : FILENAME ~ /\.c$/ ? "c" : "shell"
    inside = 0
}
kind == "shell" { add($0); next }
kind == "text" {
    if (/^```(sh|sh-fails|sh deploy)$/) inside = 1
    else if (/^```/) { inside = 0; finish() }
    else if (inside) add($0)
    next
}
# The strings of a C program that calls the shell.
kind == "c" {
    line = FNR
    for (s = $0; match(s, /"[^"]*"/); s = substr(s, RSTART + RLENGTH)) {
        n = split(substr(s, RSTART + 1, RLENGTH - 2), part, /[^A-Za-z0-9_.+-]+/)
        for (i = 1; i <= n; i++)
            if (part[i] == "command" && part[i + 1] == "-v") { say("guard", part[i + 2]); i += 2 }
            else if (plain(part[i])) say("word", part[i])
    }
    next
}
{
    s = $0
    while (match(s, /\$\(shell [^)]*\)/)) {
        run(substr(s, RSTART + 8, RLENGTH - 9), FNR)
        s = substr(s, 1, RSTART - 1) substr(s, RSTART + RLENGTH)
    }
    if (s ~ /^\t/ || continued) {
        sub(/^\t[@+-]*/, "", s)
        gsub(/\$\([^)]*\)/, "$x", s)
        gsub(/\$\$/, "$", s)
        add(s)
        continued = s ~ /\\$/
        if (!continued) finish()
    }
}
END { finish() }
