//! How the module is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Threads of the library, such as a software controller's, would run on in code that dlclose took away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
