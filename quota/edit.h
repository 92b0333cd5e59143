#ifndef GQ_QUOTA_EDIT_H
#define GQ_QUOTA_EDIT_H

#include <stddef.h>

#define GQ_EDIT_MAX 64 /* bytes; longer words have no neighbours */

/* Edits (insert, delete, replace, swap of neighbours) from one word to another, or limit when there
 * are that many or more, or when a word is longer than GQ_EDIT_MAX. fold: maps the characters that
 * count as one to one of them; gq_edit_fold() those that differ in case. */
size_t gq_edit_distance(const char *a, size_t na, const char *b, size_t nb, size_t limit,
			char (*fold)(char c));
char gq_edit_fold(char c);

#endif
