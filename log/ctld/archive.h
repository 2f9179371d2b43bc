/* ctld/archive.h: the history of a cluster as a file: `muster archive export` and `import`, see archive_main.c. */
#ifndef LOG_CTLD_ARCHIVE_H
#define LOG_CTLD_ARCHIVE_H

int archive_main(int argc, char **argv); /* its exit code; argv[0] is the verb's name */

#endif
