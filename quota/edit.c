#include "quota/edit.h"

#include <stdbool.h>

char gq_edit_fold(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

size_t gq_edit_distance(const char *a, size_t na, const char *b, size_t nb, size_t limit,
			char (*fold)(char c))
{
	size_t rows[3][GQ_EDIT_MAX + 1];

	if (na > GQ_EDIT_MAX || nb > GQ_EDIT_MAX)
		return limit;
	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *twice = rows[(i + 1) % 3];
		size_t least = row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			bool same = fold(a[i - 1]) == fold(b[j - 1]);
			size_t d = above[j - 1] + (same ? 0 : 1);
			if (above[j] + 1 < d)
				d = above[j] + 1;
			if (row[j - 1] + 1 < d)
				d = row[j - 1] + 1;
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
			    fold(a[i - 2]) == fold(b[j - 1]) && twice[j - 2] + 1 < d)
				d = twice[j - 2] + 1;
			row[j] = d;
			if (d < least)
				least = d;
		}
		if (least >= limit)
			return limit;
	}
	return rows[na % 3][nb] < limit ? rows[na % 3][nb] : limit;
}
