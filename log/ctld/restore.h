/* ctld/restore.h: `muster restore`: a controller's StateSaveLocation out of what `muster backup` made. */
#ifndef LOG_CTLD_RESTORE_H
#define LOG_CTLD_RESTORE_H

/* The verb. ARGV[0] is "restore". */
int restore_main(int argc, char **argv);

#endif
