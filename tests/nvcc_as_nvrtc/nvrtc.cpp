// A libnvrtc.so.13 whose compiler is nvcc, for WARPBELL_NVRTC: so that whatever NVRTC would compile, programs
// of users among it, runs as nvcc's PTX on the PTX machine. scripts/lib/in-ptx-kind builds it.
// $NVCC_AS_NVRTC: the nvcc. PTX alone.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

// As in nvrtc.h.
enum result { success = 0, program_failure = 2, invalid_input = 3, compilation = 6, internal = 11 };

// nvcc 13.0's front end crashes now and then on what it compiles the next time.
constexpr int tries = 5;

struct program {
    std::string name, text, log, ptx;
    std::vector<std::pair<std::string, std::string>> headers;
};

std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char c : text) {
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return result + "'";
}

std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

std::string nvcc() {
    const char* path = std::getenv("NVCC_AS_NVRTC");
    return path == nullptr ? "nvcc" : path;
}

// A folder that is gone with this.
struct folder {
    fs::path path;
    folder() {
        std::string name = (fs::temp_directory_path() / "nvcc-as-nvrtc-XXXXXX").string();
        path = mkdtemp(name.data()) == nullptr ? fs::path() : fs::path(name);
    }
    ~folder() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
};

result compile(program& of, int count, const char* const* options) {
    const folder work;
    if (work.path.empty()) {
        return internal;
    }
    for (const auto& [name, text] : of.headers) {
        write(work.path / "include" / name, text);
    }
    // Line numbers and messages have the source's own name.
    write(work.path / "source.cu", "#line 1 \"" + of.name + "\"\n" + of.text);
    std::string command = quoted(nvcc()) + " -ptx -O3 -I " + quoted((work.path / "include").string());
    for (int i = 0; i < count; ++i) {
        command += " " + quoted(options[i]);
    }
    command +=
        " " + quoted((work.path / "source.cu").string()) + " -o " + quoted((work.path / "ptx").string());
    command += " 2>" + quoted((work.path / "log").string()) + " >&2";
    int code = 1;
    for (int i = 0; i < tries; ++i) {
        code = std::system(command.c_str());
        of.log = content(work.path / "log");
        if (code == 0 || of.log.find("Segmentation fault") == std::string::npos) {
            break;
        }
    }
    if (code != 0) {
        return compilation;
    }
    of.ptx = content(work.path / "ptx");
    return of.ptx.empty() ? internal : success;
}

// Of nvcc --list-gpu-arch: a line compute_75 for each.
std::vector<int> architectures() {
    std::vector<int> all;
    FILE* const list = popen((quoted(nvcc()) + " --list-gpu-arch").c_str(), "r");
    char line[64];
    int arch = 0;
    while (list != nullptr && std::fgets(line, sizeof line, list) != nullptr) {
        if (std::sscanf(line, "compute_%d", &arch) == 1) {
            all.push_back(arch);
        }
    }
    if (list != nullptr) {
        pclose(list);
    }
    return all;
}

result give(const std::string& text, char* to) {
    std::memcpy(to, text.c_str(), text.size() + 1);
    return success;
}

result size(const std::string& text, size_t* to) {
    *to = text.size() + 1;
    return success;
}

} // namespace

extern "C" {

const char* nvrtcGetErrorString(int code) {
    switch (code) {
    case success:
        return "NVRTC_SUCCESS";
    case program_failure:
        return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case invalid_input:
        return "NVRTC_ERROR_INVALID_INPUT";
    case compilation:
        return "NVRTC_ERROR_COMPILATION";
    default:
        return "nvcc in place of NVRTC: not done, or no folder to work in";
    }
}

int nvrtcVersion(int* major, int* minor) {
    *major = 13, *minor = 0;
    return success;
}

int nvrtcGetNumSupportedArchs(int* count) {
    *count = static_cast<int>(architectures().size());
    return *count == 0 ? internal : success;
}

int nvrtcGetSupportedArchs(int* to) {
    for (const int arch : architectures()) {
        *to++ = arch;
    }
    return success;
}

int nvrtcCreateProgram(program** to, const char* text, const char* name, int count, const char* const* texts,
                       const char* const* names) {
    if (to == nullptr || text == nullptr) {
        return invalid_input;
    }
    auto* const made = new program{name == nullptr ? "source.cu" : name, text, {}, {}, {}};
    for (int i = 0; i < count; ++i) {
        made->headers.emplace_back(names[i], texts[i]);
    }
    *to = made;
    return success;
}

int nvrtcDestroyProgram(program** of) {
    delete *of;
    *of = nullptr;
    return success;
}

int nvrtcCompileProgram(program* of, int count, const char* const* options) {
    return compile(*of, count, options);
}
int nvrtcGetProgramLogSize(program* of, size_t* to) { return size(of->log, to); }
int nvrtcGetProgramLog(program* of, char* to) { return give(of->log, to); }
int nvrtcGetPTXSize(program* of, size_t* to) { return size(of->ptx, to); }
int nvrtcGetPTX(program* of, char* to) { return give(of->ptx, to); }
int nvrtcGetCUBINSize(program*, size_t*) { return internal; }
int nvrtcGetCUBIN(program*, char*) { return internal; }
}
