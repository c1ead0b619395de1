// Formats by their first bytes. Sources: each format's specification or the reader of the program
// that writes it (PyTorch's zip archives, GGUF, the FlatBuffers identifiers of TensorFlow Lite and
// ONNX Runtime, HDF5, safetensors, onnx.proto and graph.proto).
#include "files/ModelFile.h"

#include "files/Paths.h"
#include "files/Words.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace tensmith {
namespace {

namespace fs = std::filesystem;

/// What a file is, and how a model is made of it.
struct Format {
  const char *what, *advice;
};

constexpr const char *kFromTorch =
    "export the model in Python: torch.onnx.export(model, (example,), \"model.onnx\", dynamo=True)";
constexpr const char *kAsInput = "give it as an input: --input NAME=FILE, beside a model (.onnx)";

constexpr Format kTorch = {"a PyTorch file (weights, or a scripted model)", kFromTorch};
constexpr Format kPickle = {"a Python pickle, as PyTorch's older checkpoints are", kFromTorch};
constexpr Format kGguf = {"weights of a language model in GGUF, without its graph",
                          "take the model in ONNX: optimum-cli export onnx --model NAME folder/"};
constexpr Format kSafetensors = {
    "weights in safetensors, without a graph",
    "export the model that they belong to as ONNX (torch.onnx.export, or optimum-cli export onnx)"};
constexpr Format kLite = {
    "a TensorFlow Lite model",
    "convert it: python -m tf2onnx.convert --tflite FILE --output model.onnx"};
constexpr Format kHdf5 = {
    "an HDF5 file, as Keras writes models",
    "export the model in Python: model.export(\"model.onnx\", format=\"onnx\")"};
constexpr Format kKeras = {"a Keras model", kHdf5.advice};
constexpr Format kTensorFlow = {
    "a TensorFlow graph",
    "convert it: python -m tf2onnx.convert --graphdef FILE --inputs x:0 "
    "--outputs y:0 --output model.onnx (of a saved model --saved-model FOLDER)"};
constexpr Format kOrt = {"a model in ONNX Runtime's own format",
                         "give the .onnx that it was made of"};
constexpr Format kOpenVino = {"a model of OpenVINO", "give the ONNX model that it was made of"};
constexpr Format kCoreMl = {"a Core ML model", "give the model that it was made of, as ONNX"};
constexpr Format kEngine = {"an engine of TensorRT, made for one GPU",
                            "give the ONNX model that it was made of"};
constexpr Format kCaffe = {"a Caffe model", "convert it to ONNX first"};
constexpr Format kModule = {
    "compiled already", "run it (tensmith run FILE) or load it (tensmith.load, ts_module_load)"};
constexpr Format kArrays = {"an array or arrays of NumPy", kAsInput};
constexpr Format kPicture = {"a picture", kAsInput};
constexpr Format kZip = {"a zip archive", "unpack it, and give the model in it"};
constexpr Format kCompressed = {"a compressed file",
                                "unpack it (gunzip, tar), and give the model in it"};
constexpr Format kLfs = {"a pointer of Git LFS in the place of the file",
                         "get the file itself: git lfs pull"};
constexpr Format kPage = {"a web page",
                          "the download gave a page in the place of the file; get the "
                          "file itself (the raw one, on GitHub)"};
constexpr Format kText = {
    "text", "a model is ONNX, a program (.tsm), comprehensions (.tc) or a graph's text (.mlir)"};

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char &c : result)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool holds(std::string_view start, size_t at, std::string_view mark) {
  return start.size() >= at + mark.size() && start.substr(at, mark.size()) == mark;
}

/// By the name of its first entry.
const Format &formatOfZip(std::string_view start) {
  constexpr size_t kNameLength = 26, kName = 30;
  if (start.size() < kName)
    return kZip;
  size_t length = uint8_t(start[kNameLength]) | size_t(uint8_t(start[kNameLength + 1])) << 8;
  std::string_view name = start.substr(kName, length);
  if (name.ends_with("data.pkl") || name.ends_with("/version") || name.ends_with("byteorder") ||
      name.ends_with("archive_format") || name.ends_with(".format_version"))
    return kTorch;
  if (name.ends_with(".npy"))
    return kArrays;
  return name == "metadata.json" || name == "config.json" ? kKeras : kZip;
}

bool isPicture(std::string_view start) {
  return holds(start, 0, "\x89PNG") || holds(start, 0, "\xff\xd8\xff") || holds(start, 0, "GIF8") ||
         (holds(start, 0, "RIFF") && holds(start, 8, "WEBP"));
}

/// A header of JSON behind its length.
bool isSafetensors(std::string_view start) {
  return start.size() > 9 && start[8] == '{' && (start[9] == '"' || start[9] == '}') &&
         holds(start, 4, std::string_view("\0\0\0\0", 4));
}

bool isText(std::string_view start) {
  return std::ranges::all_of(start, [](unsigned char c) { return c >= 0x20 || std::isspace(c); });
}

const Format *formatOfText(std::string_view start) {
  if (holds(start, 0, "version https://git-lfs"))
    return &kLfs;
  std::string text = lowered(start.substr(0, 64));
  size_t begin = text.find_first_not_of(" \t\r\n");
  std::string_view rest = begin == std::string::npos ? "" : std::string_view(text).substr(begin);
  if (rest.starts_with("<!doctype html") || rest.starts_with("<html"))
    return &kPage;
  if (rest.starts_with("<?xml"))
    return &kOpenVino;
  for (std::string_view word : {"//", "module", "func.func", "builtin.module", "#", "!"})
    if (rest.starts_with(word)) // a graph's text
      return nullptr;
  return &kText;
}

/// Endings that tell more than the first bytes.
constexpr std::array<std::pair<const char *, const Format *>, 12> kEndings = {{
    {".pt", &kTorch},
    {".pth", &kTorch},
    {".pt2", &kTorch},
    {".gguf", &kGguf},
    {".safetensors", &kSafetensors},
    {".tflite", &kLite},
    {".keras", &kKeras},
    {".ort", &kOrt},
    {".mlmodel", &kCoreMl},
    {".engine", &kEngine},
    {".trt", &kEngine},
    {".caffemodel", &kCaffe},
}};

const Format *formatOfBytes(std::string_view start) {
  if (holds(start, 0, "PK\x03\x04"))
    return &formatOfZip(start);
  if (holds(start, 0, "\177ELF"))
    return &kModule;
  if (holds(start, 0, "GGUF"))
    return &kGguf;
  if (holds(start, 4, "TFL3"))
    return &kLite;
  if (holds(start, 4, "ORTM"))
    return &kOrt;
  if (holds(start, 0, "\x89HDF"))
    return &kHdf5;
  if (holds(start, 0, "\x93NUMPY"))
    return &kArrays;
  if (holds(start, 0, "\x1f\x8b") || holds(start, 257, "ustar"))
    return &kCompressed;
  if (start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return &kPickle;
  if (isPicture(start))
    return &kPicture;
  return isSafetensors(start) ? &kSafetensors : nullptr;
}

const Format *formatOf(std::string_view start, std::string_view name) {
  std::string ending = lowered(fs::path(name).extension().string());
  if (const Format *format = formatOfBytes(start))
    return format;
  for (auto [known, format] : kEndings)
    if (ending == known)
      return format;
  bool graphDef = holds(start, 0, "\n") && !isText(start); // its first field is a node's
  if (fs::path(name).filename() == "saved_model.pb" || (ending == ".pb" && graphDef))
    return &kTensorFlow;
  bool isOurText = ending == ".tsm" || ending == ".tc" || ending == ".mlir";
  return !start.empty() && !isOurText && isText(start) ? formatOfText(start) : nullptr;
}

/// What to do with a folder that is given for a model.
std::string adviceForFolder(const std::string &path) {
  std::vector<std::string> names = namesIn(path);
  std::string models;
  size_t count = 0;
  for (const std::string &name : names)
    if (name.ends_with(".onnx") && ++count <= 5)
      models += (models.empty() ? "" : ", ") + printable(name);
  if (!models.empty())
    return "is a folder; name a file in it: " + models + (count > 5 ? ", ..." : "");
  auto has = [&](const char *name) { return std::ranges::binary_search(names, name); };
  if (has("saved_model.pb"))
    return "is a folder with a TensorFlow model; convert it: python -m tf2onnx.convert "
           "--saved-model FOLDER --output model.onnx";
  if (has("config.json"))
    return "is a folder with a model of Hugging Face; export it: optimum-cli export onnx --model "
           "FOLDER exported/";
  return "is a folder; name a file in it";
}

Status ioError(const std::string &path, const std::string &what) {
  return {StatusCode::IoError, printable(path) + ": " + what};
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

} // namespace

Status checkModelStart(std::string_view start, std::string_view name) {
  const Format *format = formatOf(start.substr(0, kModelStart), name);
  if (!format)
    return {};
  return {StatusCode::InvalidModel,
          std::string("is ") + format->what + ", and no model; " + format->advice};
}

Status checkModelFile(const std::string &path) {
  Descriptor file = {::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0 && errno == ENOENT)
    return ioError(path, std::strerror(ENOENT) + similarFile(path));
  if (file.number < 0)
    return ioError(path, std::strerror(errno) +
                             std::string(errno == EACCES ? "; check its permissions" : ""));
  struct stat status = {};
  if (::fstat(file.number, &status) == 0 && S_ISDIR(status.st_mode))
    return ioError(path, adviceForFolder(path));
  if (!S_ISREG(status.st_mode))
    return ioError(path, "is not a regular file");
  char start[kModelStart];
  ssize_t size = ::read(file.number, start, sizeof start);
  if (size < 0)
    return ioError(path, std::strerror(errno));
  if (size == 0)
    return {StatusCode::InvalidModel,
            printable(path) + ": the file is empty; expected a model (.onnx) or a compiled module"};
  return checkModelStart({start, size_t(size)}, path).within(printable(path));
}

} // namespace tensmith
