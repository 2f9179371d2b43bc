/* cli/reservation.h: reservations and licences, for scontrol and sinfo. */
#ifndef CLI_RESERVATION_H
#define CLI_RESERVATION_H

#include "cli/scontrol.h"
#include "proto/reservation.pb-c.h"

/* All of them, by name, in C's arena. */
int cli_reservations(struct cli *c, Mu__ReservationRow ***ret, size_t *ret_count, struct mu_err *err);
/* sinfo -T: exit code. */
int cli_list_reservations(struct cli *c, bool header);
/* scontrol show, create, update, delete: exit codes. WORDS are the KEY=VALUE words of the line. */
int scontrol_show_reservations(struct scontrol *s, char **words, size_t count);
int scontrol_show_licenses(struct scontrol *s, char **words, size_t count);
int scontrol_change_reservation(struct scontrol *s, char **words, size_t count, bool create);
int scontrol_delete_reservation(struct scontrol *s, const char *name);

#endif
