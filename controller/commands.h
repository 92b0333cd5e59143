#ifndef GQ_CONTROLLER_COMMANDS_H
#define GQ_CONTROLLER_COMMANDS_H

/* What the program does by its first argument. argv[0] is the command's own name. Each returns the
 * exit status: 0, 1 (it did not go well), 2 (unusable arguments or input), and has told why on
 * standard error. */
int gq_command_serve(int argc, char **argv);
int gq_command_usage(int argc, char **argv);
int gq_command_policy(int argc, char **argv);

#endif
