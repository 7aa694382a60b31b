#include <sched.h>
#define sched_yield() 0
