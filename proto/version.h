/* proto/version.h: what this build is. */
#ifndef PROTO_VERSION_H
#define PROTO_VERSION_H

#define MU_VERSION "0.1.0"
#define MU_SLURM_VERSION "24.05.0"           /* the command set that is followed */
#define MU_WIRE_VERSION 1u
#ifndef MU_LEVEL
#define MU_LEVEL 1u                           /* highest State level this program knows */
#endif

#endif
