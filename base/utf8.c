#include "base/utf8.h"

size_t gq_utf8_width(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;

	if (len == 0)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xC2 || s[0] > 0xF4)
		return 0;
	size_t width = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
	if (len < width)
		return 0;
	/* the second byte's range depends on the first: no overlong forms, surrogates, > U+10FFFF
	 */
	unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
	unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < width; i++)
		if ((s[i] & 0xC0) != 0x80)
			return 0;
	return width;
}
