#ifndef GQ_CONTROLLER_DRIFT_LOG_H
#define GQ_CONTROLLER_DRIFT_LOG_H

#include "quota/ledger.h"

/* Logs what a recount found wrong and repaired: a line for each limit, one for the pods. Nothing
 * when there was nothing. */
void gq_drift_log(const struct gq_drift *drift);

#endif
