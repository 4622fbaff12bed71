/* What the salts of an API key's cached prompts are made of: secret bytes of the key, which travel
 * with a request from where its key is checked to where its salt is made. */
#ifndef FIRSTLIGHT_BASE_KEY_SECRET_H
#define FIRSTLIGHT_BASE_KEY_SECRET_H

struct key_secret {
    unsigned char bytes[32];
};

#endif
