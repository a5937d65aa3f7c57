/* Matches headers and words against patterns. */
#include "engine.h"

static bool lower(char c)
{
    return c >= 'a' && c <= 'z';
}

bool scpi_is(struct slice word, const char *mnemonic, size_t length)
{
    size_t shorter = 0;
    while (shorter < length && !lower(mnemonic[shorter]))
        shorter++;
    if (word.length != shorter && word.length != length)
        return false;
    for (size_t k = 0; k < word.length; k++)
        if (scpi_upper(word.text[k]) != scpi_upper(mnemonic[k]))
            return false;
    return true;
}

/* One node of a pattern, from behind its ':' (and '['); `length` without '#'. */
struct node {
    const char *text;
    size_t length;
    bool optional, numbered;
};

static const char *next_node(const char *pattern, struct node *node)
{
    node->optional = *pattern == '[';
    while (*pattern == '[' || *pattern == ':' || *pattern == ']') /* "[SENSe:]" closes behind its ':' */
        pattern++;
    node->text = pattern;
    while (*pattern && *pattern != ':' && *pattern != '[' && *pattern != ']' && *pattern != '?' && *pattern != '#')
        pattern++;
    node->length = (size_t)(pattern - node->text);
    node->numbered = *pattern == '#';
    if (node->numbered)
        pattern++;
    if (*pattern == ']')
        pattern++;
    return pattern;
}

static struct slice first_word(struct slice header)
{
    size_t n = 0;
    while (n < header.length && header.text[n] != ':')
        n++;
    return (struct slice){header.text, n};
}

static struct slice behind(struct slice header, size_t n)
{
    if (n < header.length)
        n++; /* the ':' */
    return (struct slice){header.text + n, header.length - n};
}

static bool node_is(const struct node *node, struct slice word, unsigned *suffix)
{
    if (!node->numbered)
        return scpi_is(word, node->text, node->length);
    struct slice name = word;
    unsigned number = 0, place = 1;
    while (name.length && scpi_digit(name.text[name.length - 1])) {
        number += place * (unsigned)(name.text[--name.length] - '0');
        place = place < 1000 ? place * 10 : 0; /* larger ones match, and are out of range */
    }
    if (!scpi_is(name, node->text, node->length))
        return false;
    *suffix = name.length == word.length ? 1 : number;
    return true;
}

static bool nodes_match(const char *pattern, struct slice header, bool query, unsigned *suffix)
{
    if (!*pattern || *pattern == '?')
        return header.length == 0 && (*pattern == '?') == query;
    struct node node;
    const char *rest = next_node(pattern, &node);
    if (header.length) {
        struct slice word = first_word(header);
        if (node_is(&node, word, suffix) && nodes_match(rest, behind(header, word.length), query, suffix))
            return true;
    }
    return node.optional && nodes_match(rest, header, query, suffix);
}

bool scpi_match(const char *pattern, struct slice header, bool query, unsigned *suffix)
{
    if (header.length && *header.text == ':') {
        header.text++;
        header.length--;
    }
    /* The first letter already rules out most patterns. */
    if (*pattern != '[' && header.length && *pattern != scpi_upper(*header.text))
        return false;
    *suffix = 1;
    return nodes_match(pattern, header, query, suffix);
}
