#ifndef GQ_BASE_JSON_LEX_H
#define GQ_BASE_JSON_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The tokens of RFC 8259, read from bytes that may end anywhere: strings, numbers, literals. Part
 * of json_filter; the inline functions are its hot path. */

enum gq_lex_result { GQ_LEX_MORE, GQ_LEX_DONE, GQ_LEX_BAD };

enum gq_lex_mid {
	GQ_MID_NONE, /* at a plain place of a string */
	GQ_MID_ESCAPE,
	GQ_MID_HEX,
	GQ_MID_PAIR,   /* behind a high surrogate: its low one must follow */
	GQ_MID_PAIR_U, /* and its backslash was seen */
	GQ_MID_UTF8,
};

enum gq_lex_scalar {
	GQ_SCALAR_LITERAL,
	GQ_SCALAR_NUMBER, /* at the start of one */
	GQ_SCALAR_MINUS,
	GQ_SCALAR_ZERO,
	GQ_SCALAR_INT,
	GQ_SCALAR_POINT,
	GQ_SCALAR_FRACTION,
	GQ_SCALAR_E,
	GQ_SCALAR_E_SIGN,
	GQ_SCALAR_EXPONENT,
};

/* All zero at the start of a document. */
struct gq_json_lex {
	enum gq_lex_mid mid;
	bool had_escape; /* of the string being read; the reader of a token clears both */
	bool had_nul;    /* it holds \u0000 */
	bool high;       /* the four digits being read belong to a low surrogate */
	uint8_t digits_left;
	uint8_t utf8_left;
	uint8_t utf8_low; /* bounds of the next byte */
	uint8_t utf8_high;
	uint32_t digits;
	enum gq_lex_scalar scalar;
	const char *literal_rest;
	const char *why; /* after GQ_LEX_BAD: what is wrong at the byte stopped at */
};

/* What may stand behind a backslash, but for u. */
static inline bool gq_lex_simple_escape(char c)
{
	switch (c) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		return true;
	default:
		return false;
	}
}

/* The first byte of [p, end) that is not plain: a quote, a backslash, a control character or not
 * ASCII. */
static inline const char *gq_lex_plain(const char *p, const char *end)
{
#if defined(__SSE2__) && !defined(GQ_LEX_NO_SSE2)
	while (end - p >= 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		/* signed: bytes from 0x80 up count as less than a space, too */
		__m128i odd = _mm_or_si128(_mm_cmplt_epi8(v, _mm_set1_epi8(0x20)),
					   _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
							_mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
		unsigned mask = (unsigned)_mm_movemask_epi8(odd);
		if (mask)
			return p + __builtin_ctz(mask);
		p += 16;
	}
#else
	const uint64_t ones = UINT64_C(0x0101010101010101);
	while (end - p >= 8) {
		uint64_t v;
		memcpy(&v, p, 8);
		uint64_t quote = v ^ ones * '"', slash = v ^ ones * '\\';
		uint64_t odd =
		    v | (v - ones * 0x20) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
		/* a borrow can only mark bytes above one that is marked rightly */
		if (odd & ones * 0x80)
			break;
		p += 8;
	}
#endif
	while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
	       *p != '\\')
		p++;
	return p;
}

/* Steps over escapes and characters that are not ASCII. NULL: lex->why says what is wrong, and *at
 * is where. */
const char *gq_lex_special(struct gq_json_lex *lex, const char **at, const char *end);

/* Reads on in a string whose opening quote was read. DONE: *at is behind the closing quote. */
static inline enum gq_lex_result gq_lex_string(struct gq_json_lex *lex, const char **at,
					       const char *end)
{
	const char *p = *at;

	for (;;) {
		if (lex->mid == GQ_MID_NONE) {
			p = gq_lex_plain(p, end);
			if (p < end && *p == '"') {
				*at = p + 1;
				return GQ_LEX_DONE;
			}
			if (end - p >= 2 && *p == '\\' && gq_lex_simple_escape(p[1])) {
				lex->had_escape = true;
				p += 2;
				continue;
			}
		}
		const char *odd = p; /* so that p itself may live in a register */
		if (p < end)
			p = gq_lex_special(lex, &odd, end);
		*at = odd;
		if (odd == end)
			return GQ_LEX_MORE;
		if (!p)
			return GQ_LEX_BAD;
	}
}

/* Starts a number or a literal at its first byte, without consuming it. False: no value starts so.
 */
bool gq_lex_scalar_start(struct gq_json_lex *lex, char first);

/* Reads on in it. DONE: *at is at the first byte that does not belong to it. Numbers are DONE only
 * when such a byte is there. */
enum gq_lex_result gq_lex_scalar(struct gq_json_lex *lex, const char **at, const char *end);

/* Decodes, in place, what stands between the quotes of a string that was read without fault.
 * Returns the new length. */
size_t gq_lex_unescape(char *text, size_t len);

#endif
