"""Writes the C source of the module fedloom._fedloom from fedloom's public headers.

    bindings.py OUT.c HEADER...

The headers are the only source: preprocessor lines and comments are taken away, the list of statuses is unfolded, and
the rest is what cffi reads. The functions of ours that C calls are declared below; Python's type check at the place
where one is put into a struct holds them to the headers.
"""

import re
import sys
from pathlib import Path

import cffi

# Functions in Python that C calls. cffi takes the interpreter's lock around them, whatever thread they come from.
CALLBACKS = """
extern "Python" {
    void py_log(void *arg, fl_log_level level, const char *line);
    void py_text(void *arg, const char *text);
    void py_round(void *arg, const fl_run *run, const fl_row *row, int measured);
    void py_observe(void *arg, const fl_run *run, const fl_row *row, int measured);
    void py_study(void *arg, const fl_study_progress *progress);

    int py_batch(void *arg, const fl_batch *b, const void *x, void *g, double *loss, size_t *correct, fl_failure *f);
    int py_client(void *arg, uint32_t client, size_t real, const void *x, void *g, double *loss, fl_failure *f);
    int py_product(void *arg, const fl_batch *b, const void *x, const void *v, void *out, fl_failure *f);
    int py_start(void *arg, uint64_t seed, double *x, fl_failure *f);
    int py_measure(void *arg, size_t real, const void *x, double *out, fl_failure *f);

    int py_solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f);

    int py_method_start(const fl_coordinator *s);
    int py_pose(const fl_turn *t, fl_problem *p);
    int py_answer(const fl_turn *t, const fl_answer *a);
    int py_absorb(const fl_coordinator *s, const fl_upload *u);
    int py_advance(const fl_coordinator *s);
    void *py_begin(void *arg, const double *params, fl_failure *f);
    void py_end(void *begun);

    size_t py_local_steps(const void *params, double coin);
    int py_exchanges(const void *params, size_t round, double coin);
    size_t py_count_phases(const void *params, double coin);
    size_t py_stage(const void *params, size_t phase, size_t phases);
    int py_redraws(const void *params, size_t phase, size_t phases);
    fl_pace py_pace(const void *params);
    double py_mix(const void *params, size_t client, const double *scalars);
    void py_check(const void *params, const fl_facts *f, fl_conditions *out);
    void py_fix(const void *params, const fl_facts *worst, fl_fixes *out);
    void py_warn(const void *params, const fl_facts *f, fl_text *out);
    void py_potential_falls(const void *params, const fl_facts *f, fl_conditions *out);
    size_t py_potential_remembers(const void *params);
    const void *py_potential_point(const fl_turn *t);
    void py_potential_client(const fl_turn *t, double f, void *gradient, double *out);
    double py_potential_server(const fl_coordinator *s, const double *sum, double g);
}
"""


def declarations(text: str) -> str:
    """What cffi can read of a header."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", " ")
    statuses = re.search(r"#define FL_STATUS_LIST\(X\)(.*)", text)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif", "", text, flags=re.S)
    constants = re.findall(r"^#define (FL_\w+) +(0x\w+|\d+)", text, flags=re.M)
    if statuses:
        names = re.findall(r"X\((\w+),", statuses.group(1))
        text = re.sub(r"^\s*FL_STATUS_LIST\(\w+\)\s*$", ", ".join(names), text, flags=re.M)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    version = "static char *const FL_VERSION;\n" if statuses else ""
    return version + "".join(f"#define {name} ...\n" for name, _ in constants) + text


def main(out: str, headers: "list[str]") -> None:
    builder = cffi.FFI()
    for header in headers:
        builder.cdef(declarations(Path(header).read_text()))
    builder.cdef(CALLBACKS)
    includes = "".join(f'#include "{Path(header).name}"\n' for header in headers)
    builder.set_source("fedloom._fedloom", includes, py_limited_api=True)
    builder.emit_c_code(out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
