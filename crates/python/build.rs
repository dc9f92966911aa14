//! How the module is linked.

use std::env::{var, var_os};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::{fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    // Threads of the library, such as a software controller's, would run on in code that dlclose took away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    system_unwinder()
}

/// Links the libgcc_s that `WARPBELL_LIBGCC` names. Zig puts an unwinder of its own in that one's place, which cannot unwind
/// a thread that glibc ends by libgcc_s: Python ends threads so that still wait in this module when it exits.
fn system_unwinder() -> io::Result<()> {
    println!("cargo:rerun-if-env-changed=WARPBELL_LIBGCC");
    let (Some(library), Ok(folder)) = (var_os("WARPBELL_LIBGCC"), var("OUT_DIR")) else { return Ok(()) };
    // By another name: Zig knows that one.
    let link = PathBuf::from(&folder).join("libwarpbell_unwinder.so");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(library, &link)?;
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=warpbell_unwinder");
    Ok(())
}
