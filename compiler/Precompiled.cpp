// Gives the precompiled header a target to be built in.
