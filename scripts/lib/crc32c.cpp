// CRC-32C of a file, byte by byte from the polynomial: slow, and written to share nothing with Warpbell's own.
#include <cstdint>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
    std::FILE* file = argc == 2 ? std::fopen(argv[1], "rb") : nullptr;
    if (!file) return std::fputs("usage: crc32c FILE\n", stderr), 2;
    uint32_t table[256];
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0x82F63B78u : value >> 1;
        table[byte] = value;
    }
    uint32_t crc = ~0u;
    std::vector<unsigned char> part(1 << 20);
    while (size_t n = std::fread(part.data(), 1, part.size(), file))
        for (size_t i = 0; i < n; ++i) crc = table[(crc ^ part[i]) & 255] ^ crc >> 8;
    if (std::ferror(file)) return std::perror(argv[1]), 1;
    std::printf("%08x\n", ~crc);
}
