#!/usr/bin/env bash
# docs/openapi.yaml against the server's table of pages, and docs/protocol.md: every page with its method, and the statuses that
# follow from what a page is for and whether it takes a body. Usage: openapi.sh BUILD
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"
net=$root/src/net

# METHOD PATH of every row, and what is demanded of it: the traits as they are written, body or no body.
awk '
    FILENAME ~ /protocol\.h$/ && $1 == "#define" { value[$2] = $3; gsub(/"/, "", value[$2]); next }
    /^const fli_page fli_pages\[\]/              { table = 1; next }
    table && /\{0\}/                             { table = 0 }
    table                                        {
        gsub(/ \| /, "|")
        split($0, field, /[{}, ]+/)
        gsub(/"/, "", field[2]); gsub(/"/, "", field[3])
        print field[2], field[3] in value ? value[field[3]] : field[3], field[4], field[5] == "NULL" ? "none" : "body"
    }' "$net/common/protocol.h" "$net/server/pages.c" | sort >pages
cut -d' ' -f1,2 pages >in-code

# METHOD PATH STATUS of the description, which is written one status per line.
awk '
    /^components:/      { exit }
    /^  \/.*:$/         { path = substr($1, 1, length($1) - 1) }
    /^    (get|post):$/ { method = toupper(substr($1, 1, length($1) - 1)) }
    /^        .[0-9]+.:/ { print method, path, substr($1, 2, 3) }' "$root/docs/openapi.yaml" | sort -u >described
cut -d' ' -f1,2 described | sort -u >in-description

check 'the table has pages' eval '[ "$(wc -l <in-code)" -ge 9 ]'
check 'the description has the pages of the server, and no others' diff in-code in-description

# has STATUS METHOD PATH
has() { grep -qxF "$2 $3 $1" described; }
while read -r method path traits body; do
    check "$method $path may be refused" has 403 "$method" "$path"
    case $traits in *LOOK*) ;; *) check "$method $path demands a version" has 426 "$method" "$path" ;; esac
    case $traits in *JOINED*) check "$method $path is for those who joined" has 409 "$method" "$path" ;; esac
    [ "$body" = none ] && continue
    for status in 411 413 503; do check "$method $path bounds bodies: $status" has "$status" "$method" "$path"; done
done <pages

# Statuses that the server can send at all, by libmicrohttpd's names; 404 and 405 belong to no page.
grep -oh 'MHD_HTTP_[A-Z_]*' "$net"/server/http.c "$net"/server/pages.c | sort -u | while read -r name; do
    awk -v name="$name" '$1 == "#define" && $2 == name && $3 + 0 > 99 { print $3; exit }' /usr/include/microhttpd.h
done | grep -v '^40[45]$' | sort -u >can-send
cut -d' ' -f3 described | sort -u >says
check 'the description has every status that the server can send, and no others' diff can-send says

while read -r _ path _; do
    check "protocol.md speaks of $path" grep -qF "$path" "$root/docs/protocol.md"
done <pages

count
