#ifndef GQ_INFORMER_INFORMER_INTERNAL_H
#define GQ_INFORMER_INFORMER_INTERNAL_H

#include "informer/informer.h"

/* Lets the thread look at the clock again: for clocks that do not go by themselves. Any thread. */
void gq_informer_wake(struct gq_informer *informer);

#endif
