// A language model as a folder of Hugging Face's: config.json, tokenizer.json with its
// tokenizer_config.json, generation_config.json, and weights in model.safetensors or in several
// files with an index.
//
// It is read as a GGUF file would be: metadata in GGUF's words, tensors under its names, views of
// the mapped files. What is copied is small (norms, biases), unless weights are to be quantised.
#pragma once

#include "files/Gguf.h"
#include "generation/Tokenizer.h"

namespace tensmith::generation {

struct ModelFiles {
  GgufFile file;
  Tokenizer tokenizer;
};

/// A folder or a GGUF file. `weights`: 8 or 4 bits that matrices of floats are quantised to; 0:
/// they stay as they are. Throws Failure, with the file and what is wrong.
ModelFiles readModel(const std::string &path, int weights);
/// Of a folder, a GGUF file, or a tokenizer.json alone.
Tokenizer readTokenizer(const std::string &path);

} // namespace tensmith::generation
