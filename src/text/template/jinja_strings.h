/* Python's string operations that filters and methods share. The origin of every byte is kept. */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_STRINGS_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_STRINGS_H

#include "text/template/jinja_run.h"

enum jinja_strings_case {
    CASE_UPPER,
    CASE_LOWER,
    CASE_CAPITALIZE,
    CASE_TITLE,        /* str.title(): a word starts behind anything that is no letter */
    CASE_TITLE_FILTER, /* jinja2's filter: a word starts behind white space, -, ( { [ or < */
};

bool jinja_strings_case(struct jinja_run *r, const struct jinja_string *s,
                        enum jinja_strings_case how, struct jinja_value *out);

/* Strips white space, or the characters of `chars`, from the ends that are asked for. */
bool jinja_strings_strip(struct jinja_run *r, const struct jinja_string *s,
                         const struct jinja_string *chars, bool left, bool right,
                         struct jinja_value *out);

/* `count` < 0: every occurrence. */
bool jinja_strings_replace(struct jinja_run *r, const struct jinja_string *s,
                           const struct jinja_string *from, const struct jinja_string *to,
                           int64_t count, struct jinja_value *out);

/* A list; `sep` NULL splits at runs of white space, `max` < 0 everywhere. */
bool jinja_strings_split(struct jinja_run *r, const struct jinja_string *s,
                         const struct jinja_string *sep, int64_t max, struct jinja_value *out);
bool jinja_strings_rsplit(struct jinja_run *r, const struct jinja_string *s,
                          const struct jinja_string *sep, int64_t max, struct jinja_value *out);
bool jinja_strings_lines(struct jinja_run *r, const struct jinja_string *s, bool keep_ends,
                         struct jinja_value *out);

/* str() of every item, `sep` in between. */
bool jinja_strings_join(struct jinja_run *r, const struct jinja_list *list,
                        const struct jinja_string *sep, struct jinja_value *out);

#endif
