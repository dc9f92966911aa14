//! The shared library's name, by which programs find it: its major version is in it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libwarpbell.so.{major}");
    // Threads of the library, such as a software controller's, would run on in code that dlclose took away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
