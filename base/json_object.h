#ifndef GQ_BASE_JSON_OBJECT_H
#define GQ_BASE_JSON_OBJECT_H

#include <json-c/json.h>

#include "base/cleanup.h"

GQ_DEFINE_CLEANUP(gq_cleanup_json, struct json_object, (void)json_object_put);

#endif
