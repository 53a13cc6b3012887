/* What is in the files of a checkpoint; see checkpoint.h for where they are. */
#ifndef FLI_RUN_CHECKPOINT_STATE_H
#define FLI_RUN_CHECKPOINT_STATE_H

#include "run/run.h"

/* All that changes, but of clients those of this rank alone; whoever calls it closes the file. */
fl_status fli_checkpoint_write(fl_run *run, const char *path, fli_saver **out);
/* The clients of this rank, in a file beside that one. */
fl_status fli_checkpoint_write_part(fl_run *run, const char *path, fli_seal *out);
/* Both read what is there for this rank: whoever wrote it, all ranks together take all of it. */
fl_status fli_checkpoint_read(fl_run *run, const char *path);
fl_status fli_checkpoint_read_part(fl_run *run, const char *path, size_t part);

#endif
