/* What a run counts as it goes: rounds, bytes, work, time. */
#include "metric/metric_list.h"

static double get_round(const fli_counts *c) { return c->round; }
static double get_cohort(const fli_counts *c) { return c->cohort; }
static double get_bytes_up(const fli_counts *c) { return c->bytes_up; }
static double get_bytes_down(const fli_counts *c) { return c->bytes_down; }
static double get_local_steps(const fli_counts *c) { return c->local_steps; }
static double get_seconds(const fli_counts *c) { return c->seconds; }
static double get_simulated_seconds(const fli_counts *c) { return c->simulated_seconds; }
static double get_staleness(const fli_counts *c) { return c->staleness; }
static double get_staleness_max(const fli_counts *c) { return c->staleness_max; }
static double get_idle(const fli_counts *c) { return c->idle; }
static double get_idle_most(const fli_counts *c) { return c->idle_most; }
static double get_communications(const fli_counts *c) { return c->communications; }
static double get_evaluation_up(const fli_counts *c) { return c->evaluation_up; }
static double get_evaluation_down(const fli_counts *c) { return c->evaluation_down; }

const fli_metric fli_metric_round = {
    .is = {.name = "round",
           .title = "rounds",
           .help = "rounds so far; for asynchronous methods: server steps",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_AXIS] = {"rounds"},
                     [FL_VIEW_RUN] = {"rounds"},
                     [FL_VIEW_STUDY_FILES] = {"rounds", 3},
                     [FL_VIEW_TARGET] = {"rounds"},
                     [FL_VIEW_TARGET_FILES] = {"rounds"},
                     [FL_VIEW_PAPER] = {"rounds"}}},
    .count = get_round,
};

const fli_metric fli_metric_cohort = {
    .is = {.name = "cohort",
           .title = "clients in the last round",
           .help = "clients that took part in the last round",
           .unit = FL_UNIT_COUNT,
           .shown = {[FL_VIEW_EVENTS] = {"clients/cohort"}}},
    .count = get_cohort,
};

const fli_metric fli_metric_bytes_up = {
    .is = {.name = "bytes_up",
           .title = "uploaded by all clients",
           .help = "from all clients since the start",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/bytes_up"},
                     [FL_VIEW_AXIS] = {"bytes"},
                     [FL_VIEW_RUN] = {"MB up", 51},
                     [FL_VIEW_STUDY] = {"MB up", 51},
                     [FL_VIEW_STUDY_FILES] = {"megabytes_up", 4},
                     [FL_VIEW_TARGET] = {"MB"},
                     [FL_VIEW_TARGET_FILES] = {"megabytes"}}},
    .count = get_bytes_up,
};

const fli_metric fli_metric_bytes_down = {
    .is = {.name = "bytes_down",
           .title = "downloaded by all clients",
           .help = "to all clients since the start",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/bytes_down"}}},
    .count = get_bytes_down,
};

const fli_metric fli_metric_local_steps = {
    .is = {.name = "local_steps",
           .title = "local steps of all clients",
           .help = "of all clients since the start: gradients of mini-batches; one over all samples counts as an epoch",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"work/local_steps"}}},
    .count = get_local_steps,
};

const fli_metric fli_metric_seconds = {
    .is = {.name = "seconds",
           .title = "time",
           .help = "spent in rounds, not counting measurements",
           .unit = FL_UNIT_SECONDS,
           .better = FL_BETTER_LOW,
           .digits = 1,
           .shown = {[FL_VIEW_EVENTS] = {"work/seconds"},
                     [FL_VIEW_AXIS] = {"seconds"},
                     [FL_VIEW_RUN] = {"seconds", 52},
                     [FL_VIEW_STUDY] = {"seconds", 54},
                     [FL_VIEW_STUDY_FILES] = {"seconds", 5},
                     [FL_VIEW_PAPER] = {"seconds"}}},
    .count = get_seconds,
};

const fli_metric fli_metric_simulated_seconds = {
    .is = {.name = "simulated_seconds",
           .title = "simulated time",
           .help = "of the virtual clock (`system`)",
           .unit = FL_UNIT_SECONDS,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"work/simulated_seconds"},
                     [FL_VIEW_AXIS] = {"simulated"},
                     [FL_VIEW_NOTE] = {"simulated time:"},
                     [FL_VIEW_STUDY] = {"sim. s", 52},
                     [FL_VIEW_STUDY_FILES] = {"simulated_seconds"},
                     [FL_VIEW_TARGET] = {"sim. s"},
                     [FL_VIEW_TARGET_FILES] = {"simulated"}}},
    .count = get_simulated_seconds,
};

const fli_metric fli_metric_staleness = {
    .is = {.name = "staleness",
           .title = "staleness of uploads, mean",
           .help = "for asynchronous methods: mean age of the uploads since the last line, in server steps,",
           .better = FL_BETTER_LOW,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"async/staleness"},
                     [FL_VIEW_CHART] = {"staleness", 15},
                     [FL_VIEW_NOTE] = {"age of the newest uploads, in server updates: mean"}}},
    .count = get_staleness,
};

const fli_metric fli_metric_staleness_max = {
    .is = {.name = "staleness_max",
           .title = "staleness of uploads, largest",
           .help = "and the largest",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"async/staleness_max"},
                     [FL_VIEW_NOTE] = {"age of the newest uploads, in server updates: largest"}}},
    .count = get_staleness_max,
};

/* Neither is better: what it is like depends on the machines, so nothing is judged by it. */
const fli_metric fli_metric_idle = {
    .is = {.name = "idle",
           .title = "time that processes wait for each other, mean",
           .help = "of a run by several processes: the share of the time in rounds since the last line that a process "
                   "waited for the others (with clock: real, that a thread of it had no turn to take), mean over "
                   "processes,",
           .unit = FL_UNIT_SHARE,
           .shown = {[FL_VIEW_EVENTS] = {"work/idle"}}},
    .count = get_idle,
};

const fli_metric fli_metric_idle_most = {
    .is = {.name = "idle_most",
           .title = "time that processes wait for each other, largest",
           .help = "and the largest",
           .unit = FL_UNIT_SHARE,
           .shown = {[FL_VIEW_EVENTS] = {"work/idle_most"}}},
    .count = get_idle_most,
};

const fli_metric fli_metric_communications = {
    .is = {.name = "communications",
           .title = "communications",
           .help = "exchanges of the server with a cohort since the start; several per round for some methods",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .beyond_round = 1,
           .shown = {[FL_VIEW_EVENTS] = {"communication/round_trips"},
                     [FL_VIEW_AXIS] = {"communications"},
                     [FL_VIEW_NOTE] = {"communications:", 2},
                     [FL_VIEW_STUDY] = {"comm.", 53},
                     [FL_VIEW_STUDY_FILES] = {"communications"},
                     [FL_VIEW_TARGET] = {"comm."},
                     [FL_VIEW_TARGET_FILES] = {"communications"}}},
    .count = get_communications,
};

const fli_metric fli_metric_evaluation_bytes_up = {
    .is = {.name = "evaluation_bytes_up",
           .title = "uploaded for metrics",
           .help = "from the clients that were asked for metrics, since the start; not in bytes_up",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/evaluation_bytes_up"}}},
    .count = get_evaluation_up,
};

const fli_metric fli_metric_evaluation_bytes_down = {
    .is = {.name = "evaluation_bytes_down",
           .title = "downloaded for metrics",
           .help = "to them: the models that they measure; not in bytes_down",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/evaluation_bytes_down"}}},
    .count = get_evaluation_down,
};
