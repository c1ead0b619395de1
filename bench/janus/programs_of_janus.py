"""The eleven programs of JANUS (Jeong et al., NSDI 2019, table 2), scaled: PROGRAMS[name](convert, scale) gives the function that trains, converted by
`convert`, and a step, which is called with its number and gives a loss.
"""

import janus_games
import janus_pictures
import janus_sequences

PROGRAMS = {**janus_pictures.PROGRAMS, **janus_sequences.PROGRAMS, **janus_games.PROGRAMS}
