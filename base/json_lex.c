#include "base/json_lex.h"

static bool bad(struct gq_json_lex *lex, const char *why)
{
	lex->why = why;
	return false;
}

/* Source: The Unicode Standard, table 3-7. */
static bool utf8_lead(struct gq_json_lex *lex, unsigned char c)
{
	if (c < 0xC2 || c > 0xF4)
		return bad(lex, "invalid UTF-8");
	lex->mid = GQ_MID_UTF8;
	lex->utf8_left = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
	lex->utf8_low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
	lex->utf8_high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
	return true;
}

static bool four_digits_end(struct gq_json_lex *lex)
{
	bool low = lex->digits >= 0xDC00 && lex->digits <= 0xDFFF;

	lex->mid = GQ_MID_NONE;
	if (lex->high != low)
		return bad(lex, "half of a surrogate pair");
	lex->high = false;
	if (lex->digits >= 0xD800 && lex->digits < 0xDC00)
		lex->mid = GQ_MID_PAIR;
	if (lex->digits == 0)
		lex->had_nul = true;
	return true;
}

static int hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool step(struct gq_json_lex *lex, unsigned char c)
{
	int hex;

	switch (lex->mid) {
	case GQ_MID_NONE:
		if (c < 0x20)
			return bad(lex, "a control character in a string");
		if (c != '\\')
			return utf8_lead(lex, c);
		lex->mid = GQ_MID_ESCAPE;
		lex->had_escape = true;
		return true;
	case GQ_MID_PAIR:
		lex->mid = GQ_MID_PAIR_U;
		return c == '\\' || bad(lex, "half of a surrogate pair");
	case GQ_MID_ESCAPE:
	case GQ_MID_PAIR_U:
		if (c == 'u') {
			lex->high = lex->mid == GQ_MID_PAIR_U;
			lex->mid = GQ_MID_HEX;
			lex->digits = 0;
			lex->digits_left = 4;
			return true;
		}
		if (lex->mid == GQ_MID_PAIR_U)
			return bad(lex, "half of a surrogate pair");
		lex->mid = GQ_MID_NONE;
		return gq_lex_simple_escape((char)c) || bad(lex, "an unknown escape");
	case GQ_MID_HEX:
		hex = hex_value(c);
		if (hex < 0)
			return bad(lex, "an escape without four hexadecimal digits");
		lex->digits = lex->digits << 4 | (uint32_t)hex;
		return --lex->digits_left != 0 || four_digits_end(lex);
	case GQ_MID_UTF8:
	default:
		if (c < lex->utf8_low || c > lex->utf8_high)
			return bad(lex, "invalid UTF-8");
		lex->utf8_low = 0x80;
		lex->utf8_high = 0xBF;
		if (--lex->utf8_left == 0)
			lex->mid = GQ_MID_NONE;
		return true;
	}
}

const char *gq_lex_special(struct gq_json_lex *lex, const char **at, const char *end)
{
	const char *p = *at;

	do {
		if (!step(lex, (unsigned char)*p)) {
			*at = p;
			return NULL;
		}
		p++;
	} while (p < end && (lex->mid != GQ_MID_NONE || (unsigned char)*p >= 0x80));
	return p;
}

bool gq_lex_scalar_start(struct gq_json_lex *lex, char first)
{
	lex->scalar = GQ_SCALAR_LITERAL;
	switch (first) {
	case 't':
		lex->literal_rest = "true";
		return true;
	case 'f':
		lex->literal_rest = "false";
		return true;
	case 'n':
		lex->literal_rest = "null";
		return true;
	default:
		lex->scalar = GQ_SCALAR_NUMBER;
		return first == '-' || (first >= '0' && first <= '9');
	}
}

static enum gq_lex_result literal(struct gq_json_lex *lex, const char **at, const char *end)
{
	const char *p = *at;

	for (; p < end && *lex->literal_rest; p++, lex->literal_rest++) {
		if (*p != *lex->literal_rest) {
			*at = p;
			lex->why = "neither true, false nor null";
			return GQ_LEX_BAD;
		}
	}
	*at = p;
	return *lex->literal_rest ? GQ_LEX_MORE : GQ_LEX_DONE;
}

/* What the state of a number is behind c, or -1 when c does not belong to it. */
static int number_step(enum gq_lex_scalar state, char c)
{
	bool digit = c >= '0' && c <= '9';
	bool e = c == 'e' || c == 'E';

	switch (state) {
	case GQ_SCALAR_NUMBER:
		if (c == '-')
			return GQ_SCALAR_MINUS;
		/* fall through */
	case GQ_SCALAR_MINUS:
		return !digit ? -1 : c == '0' ? GQ_SCALAR_ZERO : GQ_SCALAR_INT;
	case GQ_SCALAR_ZERO:
		return c == '.' ? GQ_SCALAR_POINT : e ? GQ_SCALAR_E : -1;
	case GQ_SCALAR_INT:
		return digit ? GQ_SCALAR_INT : c == '.' ? GQ_SCALAR_POINT : e ? GQ_SCALAR_E : -1;
	case GQ_SCALAR_POINT:
		return digit ? GQ_SCALAR_FRACTION : -1;
	case GQ_SCALAR_FRACTION:
		return digit ? GQ_SCALAR_FRACTION : e ? GQ_SCALAR_E : -1;
	case GQ_SCALAR_E:
		if (c == '+' || c == '-')
			return GQ_SCALAR_E_SIGN;
		return digit ? GQ_SCALAR_EXPONENT : -1;
	case GQ_SCALAR_E_SIGN:
	case GQ_SCALAR_EXPONENT:
	case GQ_SCALAR_LITERAL:
	default:
		return digit ? GQ_SCALAR_EXPONENT : -1;
	}
}

enum gq_lex_result gq_lex_scalar(struct gq_json_lex *lex, const char **at, const char *end)
{
	enum gq_lex_scalar state = lex->scalar;
	const char *p = *at;

	if (state == GQ_SCALAR_LITERAL)
		return literal(lex, at, end);
	for (; p < end; p++) {
		int next = number_step(state, *p);
		if (next < 0)
			break;
		state = (enum gq_lex_scalar)next;
	}
	*at = p;
	lex->scalar = state;
	if (p == end)
		return GQ_LEX_MORE;
	if (state == GQ_SCALAR_ZERO && *p >= '0' && *p <= '9')
		lex->why = "a number that begins with 0";
	else if (state == GQ_SCALAR_ZERO || state == GQ_SCALAR_INT || state == GQ_SCALAR_FRACTION ||
		 state == GQ_SCALAR_EXPONENT)
		return GQ_LEX_DONE;
	else
		lex->why = "a number without a digit here";
	return GQ_LEX_BAD;
}

static uint32_t four_digits(const char *text)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 4 | (uint32_t)(hex_value((unsigned char)text[i]) & 15);
	return value;
}

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t width = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = width - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3F));
	out[0] = (char)(c | (width == 2 ? 0xC0u : width == 3 ? 0xE0u : 0xF0u));
	return width;
}

static char simple_escape(char c)
{
	switch (c) {
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	default:
		return c;
	}
}

size_t gq_lex_unescape(char *text, size_t len)
{
	size_t from = 0, to = 0;

	while (from < len) {
		if (text[from] != '\\') {
			text[to++] = text[from++];
			continue;
		}
		if (text[from + 1] != 'u') {
			text[to++] = simple_escape(text[from + 1]);
			from += 2;
			continue;
		}
		uint32_t c = four_digits(text + from + 2);
		from += 6;
		if (c >= 0xD800 && c < 0xDC00) {
			c = 0x10000 + ((c - 0xD800) << 10) +
			    (four_digits(text + from + 2) - 0xDC00);
			from += 6;
		}
		to += put_utf8(text + to, c);
	}
	return to;
}
