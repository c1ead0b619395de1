// Readers of data: what good files hold, and that each way a file can be broken is named.
#include "TestFiles.h"

#include "files/Npy.h"
#include "train/Dataset.h"
#include "train/Identity.h"
#include "train/Settings.h"

#include <zlib.h>

namespace tensmith::train {
namespace {

std::string idx(uint8_t type, const std::vector<uint32_t> &sizes, const std::string &elements) {
  std::string bytes = {0, 0, char(type), char(sizes.size())};
  for (uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes += char(size >> shift & 0xff);
  return bytes + elements;
}

std::string gzipped(const std::string &bytes, const std::string &path) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  ::gzwrite(file, bytes.data(), unsigned(bytes.size()));
  ::gzclose(file);
  return contentsOf(path);
}

double element(const Dataset &data, size_t column, int64_t row, int64_t index = 0) {
  std::vector<std::byte> bytes(size_t(data.columns[column]->rowBytes()));
  data.columns[column]->read(row, bytes.data());
  return HostTensor(data.columns[column]->type, data.columns[column]->shape, bytes.data(), nullptr)
      .getDouble(index);
}

class Data : public testing::Test {
protected:
  std::string images = idx(8, {2, 1, 3}, "\1\2\3\4\5\6"), labels = idx(8, {2}, "\7\x9");
  Dataset open(const std::string &imageBytes, const std::string &labelBytes) {
    return openIdx(folder.write("train-images-idx3-ubyte", imageBytes),
                   folder.write("train-labels-idx1-ubyte", labelBytes));
  }
  std::string refusedImages(const std::string &bytes) {
    return refusal([&] { open(bytes, labels); });
  }
  std::string refusedCsv(const std::string &text) {
    return refusal([&] { openCsv(folder.write("t.csv", text)); });
  }
  TestFolder folder;
};

TEST_F(Data, IdxPlainAndPacked) {
  for (const std::string &bytes : {images, gzipped(images, folder / "packed")}) {
    Dataset data = open(bytes, labels);
    EXPECT_EQ(data.rows, 2);
    EXPECT_EQ(data.columns[0]->shape, (Shape{1, 3}));
    EXPECT_EQ(element(data, 0, 1, 2), 6);
    EXPECT_EQ(element(data, 1, 1), 9);
  }
}

TEST_F(Data, IdxOfWideElementsIsBigEndian) {
  Dataset data = open(idx(0x0B, {2, 1, 1}, std::string("\1\2\xff\xfe", 4)), labels);
  EXPECT_EQ(element(data, 0, 0), 258);
  EXPECT_EQ(element(data, 0, 1), -2);
}

/// Each prefix of a file is refused, packed or not.
TEST_F(Data, IdxCutOffAnywhere) {
  std::string packed = gzipped(images, folder / "packed");
  for (size_t size = 0; size < images.size(); ++size)
    EXPECT_NE(refusedImages(images.substr(0, size)), "") << size;
  for (size_t size = 0; size < packed.size(); ++size)
    EXPECT_NE(refusedImages(packed.substr(0, size)), "") << size;
  EXPECT_HAS(refusedImages(images.substr(0, images.size() - 1)), "is cut off");
}

TEST_F(Data, IdxThatIsDamaged) {
  std::string packed = gzipped(std::string(images), folder / "packed");
  packed[packed.size() - 6] ^= 1; // of its checksum
  EXPECT_HAS(refusedImages(packed), "can't be unpacked");
  EXPECT_HAS(refusedImages(images + "x"), "more bytes than its header says");
  EXPECT_HAS(refusedImages("\x89PNG ...."), "is no IDX file");
  EXPECT_HAS(refusedImages(idx(7, {2, 1, 3}, "")), "is no IDX file");
  EXPECT_HAS(refusedImages(idx(8, {2, 0xffffffff, 0xffffffff}, "")), "which is none of a data set");
  EXPECT_HAS(refusedImages(idx(8, {0x10000000, 2}, "12")), "is cut off"); // takes no 512 MiB
  EXPECT_NE(refusedImages(idx(8, {0xffffffff, 0xff}, "12")), "");
  EXPECT_HAS(refusal([&] { open(images, idx(8, {3}, "123")); }), "has 3 labels, but ");
  EXPECT_HAS(refusal([&] { openIdx(folder / "none", folder / "none"); }), "No such file");
}

TEST(DataSize, HalfOfTheMemoryIsTheLimit) {
  EXPECT_EQ(refusal([] { checkFits(1 << 20, "d"); }), "");
  EXPECT_HAS(refusal([] { checkFits(int64_t(1) << 60, "d"); }), "half of the machine's memory");
  EXPECT_HAS(refusal([] { checkFits(-1, "d"); }), "half of the machine's memory");
}

TEST_F(Data, FoldersOfIdxFilesAreFoundByTheirNames) {
  folder.write("train-images-idx3-ubyte.gz", images);
  folder.write("train-labels-idx1-ubyte.gz", labels);
  Settings settings;
  settings.data = {folder.path()};
  EXPECT_TRUE(findData(settings).test.empty());
  EXPECT_EQ(openDataset(settings.data, "auto", false, {}).rows, 2);
  folder.write("t10k-images-idx3-ubyte.gz", images);
  folder.write("t10k-labels-idx1-ubyte.gz", labels);
  EXPECT_EQ(findData(settings).test, settings.data);
  EXPECT_HAS(refusal([&] { openDataset({folder / "none"}, "auto", false, {}); }), "is not there");
}

TEST_F(Data, CsvOfNumbersAndOfClasses) {
  Dataset data =
      openCsv(folder.write("t.csv", "a,\"b, c\",kind\r\n1,2.5,\"red\"\r\n+3,-4e1,blue\r\n"));
  EXPECT_EQ(data.rows, 2);
  EXPECT_EQ(data.columns[1]->name, "b, c");
  EXPECT_EQ(element(data, 0, 1), 3);
  EXPECT_EQ(element(data, 1, 1), -40);
  EXPECT_EQ(data.target, 2);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(element(data, 2, 0), 1);
}

TEST_F(Data, CsvThatIsBroken) {
  EXPECT_HAS(refusedCsv("a,b\n1,2\n1\n"), "row 2 has 1 fields, but the heading has 2");
  EXPECT_HAS(refusedCsv("a,b\n1,2\n1,x\n"), "row 2, column 'b': 'x' is no number");
  EXPECT_HAS(refusedCsv("1,2\n3,4\n"), "the first row has to name the columns");
  EXPECT_HAS(refusedCsv("a,b\nx,y\n"), "only the target can be");
  EXPECT_HAS(refusedCsv("a,b\n1,\"2\n"), "row 1: a quote (\") is not closed, or stands within");
  EXPECT_HAS(refusedCsv("a,b\n1,2\n1,2\"3\n"), "row 2: a quote (\")");
  EXPECT_HAS(refusal([&] { openDataset({folder.write("e.csv", "a,b\n")}, "auto", false, {}); }),
             "has no samples");
  EXPECT_HAS(
      refusal([&] { openDataset({folder.write("d.csv", "a,b,a\n1,2,3\n")}, "auto", false, {}); }),
      "has two columns 'a'; rename one of them");
}

/// Of a program that imports layers the library is a part.
TEST_F(Data, HashesOfProgramsHaveTheLayersVersion) {
  std::string with = folder.write("with.tsm", "import \"tensmith/dense.tsm\"\n"),
              without = folder.write("without.tsm", "fn main(x: f32[n]) = x\n"),
              through = folder.write("through.tsm", "import \"with.tsm\"\n");
  EXPECT_EQ(hashOfProgram(with), hashOfProgram(with, layersVersion()));
  EXPECT_NE(hashOfProgram(with, "1"), hashOfProgram(with, "2"));
  EXPECT_NE(hashOfProgram(through, "1"), hashOfProgram(through, "2"));
  EXPECT_EQ(hashOfProgram(without, "1"), hashOfProgram(without, "2"));
  EXPECT_EQ(layersVersion().size(), 64u);
}

/// A run that goes on tells its data from others by these.
TEST_F(Data, HashesAreOfWhatIsRead) {
  auto hashed = [&](const std::string &name, const std::string &csv) {
    return hashOf(openCsv(folder.write(name, csv)));
  };
  std::string hash = hashed("one.csv", "a,kind\n1,x\n2,y\n");
  EXPECT_EQ(hashed("two.csv", "a,\"kind\"\r\n1.0,x\r\n2,y\r\n"), hash);
  for (const char *other : {"a,kind\n1,x\n3,y\n", "b,kind\n1,x\n2,y\n", "a,kind\n1,x\n2,z\n",
                            "a,kind\n2,y\n1,x\n", "a,kind\n1,x\n2,y\n2,y\n"})
    EXPECT_NE(hashed("other.csv", other), hash) << other;
}

TEST_F(Data, ArraysHaveAsManySamples) {
  auto npy = [&](const std::string &name, Shape shape) {
    Bytes bytes = writeNpy(HostTensor(DataType::F32, shape));
    return folder.write(name, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  };
  std::string x = npy("x.npy", {4, 3}), y = npy("y.npy", {4}), z = npy("z.npy", {5});
  EXPECT_EQ(openArrays({x, y}).rows, 4);
  EXPECT_EQ(openArrays({"ids=" + x, "target=" + y}).columns[1]->name, "target");
  EXPECT_HAS(refusal([&] { openArrays({x, z}); }), "has 5 samples, but inputs has 4");
  EXPECT_HAS(refusal([&] { openArrays({x, "y=" + y}); }), "or none has");
  EXPECT_HAS(refusal([&] { openArrays({x, npy("s.npy", {})}); }), "is a single number");
}

TEST_F(Data, PicturesAreInAFolderForEachClass) {
  auto size = [](const std::string &) { return PictureSize{2, 2, 1}; };
  EXPECT_HAS(refusal([&] { openPictures(folder.path(), size); }), "a folder for each class");
  std::filesystem::create_directories(folder / "cat");
  EXPECT_HAS(refusal([&] { openPictures(folder.path(), size); }), "has no PNG or JPEG pictures");
  folder.write("dog/2.png", "no picture");
  folder.write("cat/1.PNG", "no picture either");
  folder.write("cat/notes.txt", "");
  Dataset data = openPictures(folder.path(), size);
  EXPECT_EQ(data.rows, 2);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(element(data, 1, 1), 1);
  EXPECT_HAS(refusal([&] { element(data, 0, 1); }), "dog/2.png: is not a PNG or JPEG picture");
}

} // namespace
} // namespace tensmith::train
