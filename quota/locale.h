#ifndef GQ_QUOTA_LOCALE_H
#define GQ_QUOTA_LOCALE_H

/* The languages of what users read, in the order of gq_locale_names. A header of its own: the
 * policy chooses one, and need not know the messages for that. */
enum gq_locale { GQ_LOCALE_EN, GQ_LOCALE_ZH, GQ_LOCALE_COUNT };

/* As a policy writes them; ends with NULL. */
extern const char *const gq_locale_names[];

#endif
