//! Links libtensmith_runtime: from the folder TENSMITH_LIB_DIR where that is set, else from where pkg-config finds
//! `tensmith-runtime`, else from the linker's own folders. Tests and examples of this crate find it there again at run
//! time; a program of yours needs it on the loader's path.

use std::{env, process::Command};

fn folder() -> Option<String> {
    if let Ok(folder) = env::var("TENSMITH_LIB_DIR") {
        return Some(folder);
    }
    let found = Command::new("pkg-config").args(["--variable=libdir", "tensmith-runtime"]).output().ok()?;
    let folder = String::from_utf8(found.stdout).ok()?.trim().to_owned();
    (found.status.success() && !folder.is_empty()).then_some(folder)
}

fn main() {
    println!("cargo:rerun-if-env-changed=TENSMITH_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(folder) = folder() {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    println!("cargo:rustc-link-lib=dylib=tensmith_runtime");
}
