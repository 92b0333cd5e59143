#include "quota/quantity.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "quota/amount.h"

/* Longer texts are refused: no quantity that anybody writes comes near, and it bounds the numbers
 * below. */
#define TEXT_MAX 128

/* An unsigned number in base 2^32, least significant limb first. It holds TEXT_MAX decimal digits
 * (426 bits) times 2^60 (the suffix Ei) times 2^63 (units). */
#define LIMBS 20

struct big {
	uint32_t limb[LIMBS];
};

static void big_muladd(struct big *n, uint32_t factor, uint32_t addend)
{
	uint64_t carry = addend;

	for (size_t i = 0; i < LIMBS; i++) {
		carry += (uint64_t)n->limb[i] * factor;
		n->limb[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

/* Returns the remainder. */
static uint32_t big_div(struct big *n, uint32_t divisor)
{
	uint64_t rest = 0;

	for (size_t i = LIMBS; i-- > 0;) {
		rest = rest << 32 | n->limb[i];
		n->limb[i] = (uint32_t)(rest / divisor);
		rest %= divisor;
	}
	return (uint32_t)rest;
}

static void big_mul64(struct big *n, uint64_t factor)
{
	struct big high = *n;

	big_muladd(n, (uint32_t)factor, 0);
	big_muladd(&high, (uint32_t)(factor >> 32), 0);
	uint64_t carry = 0;
	for (size_t i = 1; i < LIMBS; i++) {
		carry += (uint64_t)n->limb[i] + high.limb[i - 1];
		n->limb[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

static bool big_is_zero(const struct big *n)
{
	for (size_t i = 0; i < LIMBS; i++)
		if (n->limb[i])
			return false;
	return true;
}

/* digits * 10^exp10 * 1024^exp1024 */
struct quantity {
	struct big digits;
	bool negative;
	long exp10;
	unsigned exp1024;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The signed integer behind e or E; saturates far outside of what can matter. */
static bool parse_exponent(const char *text, size_t len, long *ret_exponent)
{
	bool negative = false;
	long n = 0;
	size_t i = 0;

	if (len && (text[0] == '-' || text[0] == '+')) {
		negative = text[0] == '-';
		i++;
	}
	if (i == len)
		return false;
	for (; i < len; i++) {
		if (!is_digit(text[i]))
			return false;
		if (n < 100000)
			n = n * 10 + (text[i] - '0');
	}
	*ret_exponent = negative ? -n : n;
	return true;
}

static bool parse_suffix(const char *text, size_t len, struct quantity *q)
{
	static const char binary[] = "KMGTPE";
	static const struct {
		char suffix;
		long exp10;
	} decimal[] = {{'n', -9}, {'u', -6}, {'m', -3}, {'k', 3}, {'M', 6},
		       {'G', 9},  {'T', 12}, {'P', 15}, {'E', 18}};
	long exponent;

	if (len == 0)
		return true;
	if (len == 1) {
		for (size_t i = 0; i < sizeof decimal / sizeof *decimal; i++) {
			if (text[0] == decimal[i].suffix) {
				q->exp10 += decimal[i].exp10;
				return true;
			}
		}
		return false;
	}
	if (len == 2 && text[1] == 'i') {
		const char *at = memchr(binary, text[0], sizeof binary - 1);
		if (!at)
			return false;
		q->exp1024 = (unsigned)(at - binary) + 1;
		return true;
	}
	if ((text[0] != 'e' && text[0] != 'E') || !parse_exponent(text + 1, len - 1, &exponent))
		return false;
	q->exp10 += exponent;
	return true;
}

static bool parse(const char *text, size_t len, struct quantity *ret)
{
	struct quantity q = {0};
	bool point = false;
	size_t n_digits = 0;
	size_t i = 0;

	if (len && (text[0] == '-' || text[0] == '+')) {
		q.negative = text[0] == '-';
		i++;
	}
	for (; i < len; i++) {
		if (text[i] == '.' && !point) {
			point = true;
		} else if (is_digit(text[i])) {
			big_muladd(&q.digits, 10, (uint32_t)(text[i] - '0'));
			n_digits++;
			q.exp10 -= point;
		} else {
			break;
		}
	}
	if (!n_digits || !parse_suffix(text + i, len - i, &q))
		return false;
	*ret = q;
	return true;
}

/* ceil(q * units) */
static int evaluate(const struct quantity *q, uint64_t units, int64_t *ret,
		    enum gq_exactness *ret_exact)
{
	struct big n = q->digits;
	bool rest = false;

	if (big_is_zero(&n)) {
		*ret = 0;
		*ret_exact = GQ_EXACT;
		return 0;
	}
	if (q->exp10 > 40) /* at least 10^41: too large whatever follows */
		return GQ_ETOOBIG;
	for (unsigned i = 0; i < q->exp1024; i++)
		big_muladd(&n, 1024, 0);
	big_mul64(&n, units);
	/* 10^40 on top of 128 digits would not fit: what needs more than 64 bits already is too
	 * large */
	for (long e = 0; e < q->exp10; e++) {
		for (size_t i = 4; i < LIMBS; i++)
			if (n.limb[i])
				return GQ_ETOOBIG;
		big_muladd(&n, 10, 0);
	}
	for (long e = 0; e > q->exp10; e--) {
		rest |= big_div(&n, 10) != 0;
		if (big_is_zero(&n))
			break;
	}
	for (size_t i = 2; i < LIMBS; i++)
		if (n.limb[i])
			return GQ_ETOOBIG;
	uint64_t whole = (uint64_t)n.limb[1] << 32 | n.limb[0];
	if (whole >= (uint64_t)INT64_MAX - rest)
		return GQ_ETOOBIG;
	*ret = (int64_t)(whole + rest);
	*ret_exact = rest ? GQ_ROUNDED : GQ_EXACT;
	return 0;
}

int gq_quantity_units(const char *text, size_t len, int64_t units_per_one, int64_t *ret_units,
		      enum gq_exactness *ret_exact, struct gq_err *err)
{
	struct quantity q;
	enum gq_exactness exact;
	int64_t value;
	int shown = len > TEXT_MAX ? TEXT_MAX : (int)len;

	if (len > TEXT_MAX)
		return gq_fail(err, GQ_EINVALID, "\"%.*s…\" is too long for a quantity", shown,
			       text);
	if (!parse(text, len, &q))
		return gq_fail(
		    err, GQ_EINVALID,
		    "\"%.*s\" is not a quantity: expected a number like 8, 0.5, 500m or 80Gi",
		    shown, text);
	if (q.negative && !big_is_zero(&q.digits))
		return gq_fail(err, GQ_EINVALID, "\"%.*s\" is negative", shown, text);
	if (evaluate(&q, (uint64_t)units_per_one, &value, &exact))
		return gq_fail(err, GQ_ETOOBIG, "\"%.*s\" is too large", shown, text);
	*ret_units = value;
	if (ret_exact)
		*ret_exact = exact;
	return 0;
}

int gq_shares_print(struct gq_buf *out, int64_t shares)
{
	/* a millionth of a GPU is 5.04 shares: a fraction has at most six places when it is a
	 * multiple of 126 shares, which are 25 millionths */
	static const int64_t exact_step = 126, millionths_per_step = 25;
	char places[8];

	if (shares == GQ_UNLIMITED)
		return gq_buf_puts(out, "unlimited");
	int64_t whole = shares / GQ_SHARES_PER_GPU;
	int64_t fraction = shares % GQ_SHARES_PER_GPU;
	gq_buf_printf(out, "%" PRId64, whole);
	if (!fraction)
		return out->code;
	if (fraction % exact_step)
		return gq_buf_printf(out, ".%03d", (int)(fraction / (GQ_SHARES_PER_GPU / 1000)));
	int millionths = (int)(fraction / exact_step * millionths_per_step);
	for (size_t i = 6; i-- > 0; millionths /= 10)
		places[i] = (char)('0' + millionths % 10);
	size_t n = 6;
	while (places[n - 1] == '0')
		n--;
	gq_buf_putc(out, '.');
	return gq_buf_append(out, places, n);
}

int gq_mib_print(struct gq_buf *out, int64_t mib)
{
	static const char *const units[] = {"Mi", "Gi", "Ti", "Pi", "Ei"};
	size_t unit = 0;

	if (mib == GQ_UNLIMITED)
		return gq_buf_puts(out, "unlimited");
	if (mib == 0)
		return gq_buf_putc(out, '0');
	while (mib % 1024 == 0 && unit + 1 < sizeof units / sizeof *units) {
		mib /= 1024;
		unit++;
	}
	return gq_buf_printf(out, "%" PRId64 "%s", mib, units[unit]);
}
