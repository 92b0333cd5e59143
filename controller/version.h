#ifndef GQ_CONTROLLER_VERSION_H
#define GQ_CONTROLLER_VERSION_H

#ifndef GQ_VERSION
#define GQ_VERSION "unknown" /* set by the build, from project() */
#endif
#define GQ_USER_AGENT "gpuquota/" GQ_VERSION

#endif
