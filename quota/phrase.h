#ifndef GQ_QUOTA_PHRASE_H
#define GQ_QUOTA_PHRASE_H

/* What is put into a sentence: a name, which is the same in every language, or a text of the table
 * in message.h. A header of its own: who decodes objects need not be compiled again with each new
 * message. */
struct gq_phrase {
	const char *name; /* NULL: the message's text */
	int message;      /* enum gq_message_id, of one without placeholders */
};

#define GQ_PHRASE_NAME(text) ((struct gq_phrase){.name = (text)})
#define GQ_PHRASE_MESSAGE(id) ((struct gq_phrase){.message = (id)})

#endif
