/* The commands of the program; client_commands.c has those of the small program. */
#include "cli/cli.h"

const char program[] = "fedloom";

static const command *const commands[] = {
    &cmd_init,  &cmd_run,    &cmd_resume, &cmd_compare, &cmd_tune,  &cmd_reproduce,  &cmd_plot,
    &cmd_check, &cmd_config, &cmd_data,   &cmd_list,    &cmd_show,  &cmd_export,     &cmd_verify,
    &cmd_cert,  &cmd_serve,  &cmd_join,   &cmd_status,  &cmd_audit, &cmd_completion,
};

const char overview_text[] = "A federation (data, who holds which samples, model, method, who takes part) is\n"
                             "described in a small YAML file; a command runs it or looks into it.\n";

const char overview_end[] = "\n"
                            "  fedloom help COMMAND    how a command is used, with examples\n"
                            "  fedloom --version       the version, and what it computes with here\n"
                            "\n"
                            "a first comparison, of your own data or made up ones: five questions, a file\n"
                            "\n"
                            "  fedloom init first.yaml\n"
                            "  fedloom compare first.yaml\n"
                            "\n"
                            "a first run, by hand and without any data of your own:\n"
                            "\n"
                            "  cat > first.yaml <<'END'\n"
                            "  data: {kind: blobs, samples: 600}\n"
                            "  partition: {kind: iid, clients: 10}\n"
                            "  model: softmax\n"
                            "  local: {epochs: 1, batch: 10, lr: 0.1}\n"
                            "  participation: {kind: uniform, count: 4}\n"
                            "  algorithm: fedavg\n"
                            "  rounds: 20\n"
                            "  END\n"
                            "  fedloom run first.yaml\n"
                            "\n"
                            "FEDLOOM_KERNELS=v2, v3 or v4 in the environment computes with the kernels for\n"
                            "those x86-64 processors, instead of the highest that this one can run\n"
                            "\n"
                            "NO_COLOR=1 in the environment leaves out colours on a terminal\n"
                            "\n"
                            "exit codes: 0 success, 1 something failed while running, 2 wrong usage or\n"
                            "configuration, 130 interrupted\n";

const command *command_at(size_t i) { return i < sizeof commands / sizeof *commands ? commands[i] : NULL; }
