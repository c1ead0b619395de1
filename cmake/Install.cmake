# What `cmake --install` lays down. Filled in by the runtime (library, headers, find_package configuration).
