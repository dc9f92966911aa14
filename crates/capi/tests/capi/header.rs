//! The header is what the library is: its functions, its structs, those of `abi.h`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;

use warpbell_capi::types;
use warpbell_kernels::abi;

use crate::installed::{Program, built, has, pkg_config, prefix, succeeded};

/// The text of all headers of the C API, as they are installed.
fn headers() -> String {
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/include/warpbell")).unwrap();
    let installed = sources.map(|file| prefix().join("include/warpbell").join(file.unwrap().file_name()));
    installed.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Names of the functions that the headers declare.
fn declared() -> BTreeSet<String> {
    let header = headers();
    let declarations = header.split("WARPBELL_API ").skip(1).filter(|text| !text.starts_with('_'));
    let names = declarations.filter_map(|text| {
        let (head, _) = text.split_once('(')?;
        let name = head.rsplit([' ', '*', '\n']).next()?;
        name.starts_with("warpbell_").then(|| name.to_owned())
    });
    names.collect()
}

/// Names with our prefix that a file defines for others.
fn defined(options: &[&str], file: &str) -> BTreeSet<String> {
    let output = Command::new("nm").args(options).arg(built().join(file)).output().unwrap();
    let symbols = succeeded("nm", &output);
    let names = symbols.lines().filter_map(|line| line.split_whitespace().last());
    names.filter(|name| name.starts_with("warpbell_")).map(str::to_owned).collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    if !has("nm", "exported symbols") {
        return;
    }
    let declared = declared();
    assert!(declared.contains("warpbell_ssd_open") && declared.contains("warpbell_error_message"));
    assert_eq!(defined(&["-D", "--defined-only"], "libwarpbell_capi.so"), declared);
}

#[test]
fn the_static_library_has_all_of_it() {
    if has("nm", "symbols of the static library") {
        let missing: Vec<_> = declared()
            .difference(&defined(&["-g", "--defined-only"], "libwarpbell_capi.a"))
            .cloned()
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn a_header_that_is_no_longer_true_would_be_noticed() {
    // The parser sees each declaration, also those over several lines.
    let count = headers().matches("\nWARPBELL_API ").count();
    assert_eq!(declared().len(), count);
}

type Row = (&'static str, &'static str, usize);

/// Struct, field, offset; an empty field: the struct's size.
macro_rules! rows {
    ($c:literal, $type:ty, $($field:ident),*) => {
        [($c, "", size_of::<$type>()), $(($c, stringify!($field), offset_of!($type, $field))),*].to_vec()
    };
}

fn own_structs() -> Vec<Row> {
    use types::host_io::{IoCompletion, IoQueueOptions, IoRequest};
    use types::{
        AttachOptions, CompileOptions, Event, LaunchOptions, LeaseOptions, NamespaceInfo, OpenOptions,
        RecoveryCounters, RecoveryPolicy, SsdInfo,
    };
    [
        rows!(
            "warpbell_open_options",
            OpenOptions,
            allow_write,
            queues,
            prp_only,
            rings,
            data,
            gpu,
            recovery,
            doorbells
        ),
        rows!("warpbell_ssd_info", SsdInfo, model, serial, firmware, max_transfer_bytes, namespaces, queues),
        rows!("warpbell_namespace_info", NamespaceInfo, blocks, block_bytes, nsid, writable, pad0),
        rows!(
            "warpbell_attach_options",
            AttachOptions,
            target,
            timeout_ns,
            nsid,
            queues,
            warps,
            iodepth,
            commands_per_lane,
            sharing,
            replacement_queues,
            no_recovery
        ),
        rows!(
            "warpbell_recovery_policy",
            RecoveryPolicy,
            alarm_period_ns,
            health_period_ns,
            event_period_ns,
            abort_ns,
            settle_ns,
            delete_ns,
            replace_ns,
            quiesce_ns,
            reset_ns,
            reset_window_ns,
            resets,
            no_function_reset,
            off,
            keep_on_release
        ),
        rows!("warpbell_event", Event, at_ns, kind, step, queue, qid, tag, warning, text),
        rows!(
            "warpbell_recovery_counters",
            RecoveryCounters,
            alarms,
            timed_out,
            aborts,
            aborts_acknowledged,
            aborts_not_found,
            aborts_unanswered,
            late_completions,
            queues_lost,
            queues_replaced,
            queues_dead,
            ids_freed,
            resets,
            resets_failed,
            ssds_lost,
            events_lost
        ),
        rows!(
            "warpbell_lease_options",
            LeaseOptions,
            first_lba,
            blocks,
            read_only,
            first_queue,
            queues,
            pad0,
            buffer
        ),
        rows!("warpbell_compile_options", CompileOptions, definitions, cache),
        rows!(
            "warpbell_launch_options",
            LaunchOptions,
            grid,
            block,
            shared_bytes,
            cpu_threads,
            cooperative,
            on_stream,
            stream
        ),
        rows!("warpbell_io_queue_options", IoQueueOptions, timeout_ns, nsid, depth),
        rows!("warpbell_io_request", IoRequest, op, pad0, lba, bytes, data, tag),
        rows!("warpbell_io_completion", IoCompletion, tag, bytes, status, pad0),
    ]
    .concat()
}

fn structs_of_volumes() -> Vec<Row> {
    use types::{
        CacheCounters, CacheInfo, CacheOptions, FileInfo, FileOptions, FilePart, MemberInfo, Tile, TilesInfo,
        TilesOptions, VolumeInfo, VolumeIoEnd, VolumeIoOptions, VolumeOptions,
    };
    [
        rows!("warpbell_file_options", FileOptions, manifest, partition, nsid, allow_dirty),
        rows!("warpbell_file_info", FileInfo, bytes, hole_bytes, extents, nsid, block_bytes),
        rows!("warpbell_file_part", FilePart, offset, at, bytes),
        rows!("warpbell_volume_options", VolumeOptions, chunk_bytes, layout, pad0, distances),
        rows!("warpbell_volume_info", VolumeInfo, blocks, chunk_bytes, block_bytes, members, layout, pad0),
        rows!(
            "warpbell_member_info",
            MemberInfo,
            name,
            bytes_read,
            bytes_written,
            errors,
            error_status,
            present,
            avoided,
            pad0
        ),
        rows!(
            "warpbell_cache_options",
            CacheOptions,
            first_block,
            timeout_ns,
            kept_first,
            kept_pages,
            page_bytes,
            lines
        ),
        rows!("warpbell_cache_info", CacheInfo, pages, buffer_bytes, page_bytes, lines),
        rows!(
            "warpbell_cache_counters",
            CacheCounters,
            hits,
            misses,
            write_backs,
            prefetched,
            prefetched_used,
            prefetched_in_vain,
            prefetch_skipped,
            error_page,
            error_status,
            pad0
        ),
        rows!("warpbell_volume_io_options", VolumeIoOptions, timeout_ns, depth, write),
        rows!("warpbell_volume_io_end", VolumeIoEnd, request, error, pad0, text),
        rows!("warpbell_tile", Tile, number, first_block, row_stride, blocks, rows),
        rows!("warpbell_tiles_options", TilesOptions, slots, ahead),
        rows!("warpbell_tiles_info", TilesInfo, steps, loads, loaded_bytes, ring_bytes, slot_bytes, pad0),
    ]
    .concat()
}

fn abi_structs() -> impl Iterator<Item = Row> {
    abi::STRUCTS.iter().flat_map(|layout| {
        let fields = layout.fields.iter().map(|field| (layout.name, field.name, field.offset));
        std::iter::once((layout.name, "", layout.size)).chain(fields)
    })
}

#[test]
fn structs_are_laid_out_as_the_c_compiler_does() {
    if !has("cc", "layout of structs") || !has("pkg-config", "layout of structs") {
        return;
    }
    let rows: Vec<Row> =
        [own_structs(), structs_of_volumes()].concat().into_iter().chain(abi_structs()).collect();
    assert!(rows.len() > 100);
    let mut text = "#include <stdio.h>\n#include <warpbell/abi_table.h>\n#include <warpbell/file.h>\n#include <warpbell/host_io.h>\n#include <warpbell/tiles.h>\nint main(void) {\n".to_owned();
    for (name, field, _) in &rows {
        let value =
            if field.is_empty() { format!("sizeof({name})") } else { format!("offsetof({name}, {field})") };
        writeln!(text, "    printf(\"%zu\\n\", {value});").unwrap();
    }
    text.push_str("    return 0;\n}\n");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, text).unwrap();
    let flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"];
    let program = Program::build("cc", &flags, &source, &pkg_config(&["--cflags"]));
    let found = succeeded("layout", &program.run(&[]));
    let found: Vec<usize> = found.lines().map(|line| line.parse().unwrap()).collect();
    let wanted: Vec<usize> = rows.iter().map(|row| row.2).collect();
    assert_eq!(found.len(), wanted.len());
    for (row, found) in rows.iter().zip(found) {
        assert_eq!(found, row.2, "{} {}", row.0, row.1);
    }
}
