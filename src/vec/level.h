/* For the files that are compiled once per level (kernels.h): their symbols carry the level's name, so that the copies
 * do not meet. LEVELLED(fli_ops_f32) is fli_ops_f32_v3 where the build defines LEVEL as v3. */
#ifndef FLI_VEC_LEVEL_H
#define FLI_VEC_LEVEL_H

#define LEVEL_JOIN(name, level)        name##_##level
#define LEVEL_JOIN_VALUES(name, level) LEVEL_JOIN(name, level)
#define LEVELLED(name)                 LEVEL_JOIN_VALUES(name, LEVEL)

#endif
