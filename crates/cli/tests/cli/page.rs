//! `report FILE...`: a page that needs nothing else and has every point.

use crate::common::{json, ok, refused};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;
use tempfile::TempDir;

/// A result in a file of `folder`, changed by `change`.
fn result(folder: &TempDir, name: &str, flags: &[&str], change: impl FnOnce(&mut Value)) -> (String, Value) {
    let device = ["bench", "soft:size=16m,profile=optane,time=virtual", "--api", "host", "-o", "json"];
    let mut report = json(&[&device[..], flags].concat());
    change(&mut report);
    let path = folder.path().join(name).display().to_string();
    std::fs::write(&path, report.to_string()).expect("a file");
    (path, report)
}

/// The page of these files, which must be well-formed and alone.
fn page(arguments: &[&str]) -> String {
    let text = ok(&[&["report"], arguments].concat());
    for word in ["http", "src=", "href", "@import", "url(", "<script", "<link"] {
        assert!(!text.contains(word), "{word} in the page");
    }
    parsed(&text);
    text
}

fn parsed(text: &str) -> Document<'_> {
    Document::parse_with_options(text, ParsingOptions { allow_dtd: true, ..ParsingOptions::default() })
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A section of the page, by its heading.
fn section<'a>(page: &'a Document<'_>, heading: &str) -> Option<Node<'a, 'a>> {
    let named = |node: &Node<'_, '_>| {
        node.has_tag_name("section")
            && node.children().any(|child| child.has_tag_name("h2") && child.text() == Some(heading))
    };
    page.descendants().find(named)
}

/// The words of all marks in a section whose class begins so.
fn marks(section: Node<'_, '_>, class: &str) -> Vec<String> {
    let of =
        |node: &Node<'_, '_>| node.attribute("class").is_some_and(|own| own.split(' ').next() == Some(class));
    let title = |node: Node<'_, '_>| {
        let title = node.children().find(|child| child.has_tag_name("title"));
        title.and_then(|title| title.text()).unwrap_or_default().to_owned()
    };
    section.descendants().filter(of).map(title).filter(|title| !title.is_empty()).collect()
}

const SWEEP: [&str; 6] = ["--axis", "bs=512,4k,700", "--axis", "iodepth=1..8*2", "--io-limit", "64k"];

#[test]
fn every_point_is_in_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let repeated = [&SWEEP[..], &["--repeat", "3"]].concat();
    let (a, first) = result(&folder, "a.json", &repeated, |_| ());
    let (b, second) = result(&folder, "b & c.json", &SWEEP, |_| ());
    let text = page(&[&a, &b]);
    let page = parsed(&text);
    let iops = section(&page, "I/Os per second").unwrap();
    let points = marks(iops, "f");
    assert_eq!(points.len(), 16, "8 points of each file: {points:?}");
    for (letter, report) in [("A", &first), ("B", &second)] {
        for run in report["runs"].as_array().unwrap() {
            let start = format!("{letter}: {}: ", run["point"].as_str().unwrap());
            assert_eq!(points.iter().filter(|title| title.starts_with(&start)).count(), 1, "{start}");
        }
    }
    assert_eq!(marks(iops, "one").len(), 24, "each repeat by itself");
    let heat = marks(section(&page, "Two axes").unwrap(), "h");
    assert_eq!(heat.len(), 16, "{heat:?}");
    assert_eq!(marks(section(&page, "Latency percentiles").unwrap(), "f").len(), 16 * 5);
    let doorbells = marks(section(&page, "Work for each I/O").unwrap(), "f");
    assert!(doorbells.len() >= 3 * 16, "doorbells of both kinds and polls, at least");
    let rows = |heading: &str| {
        section(&page, heading).unwrap().descendants().filter(|node| node.has_tag_name("tr")).count()
    };
    assert_eq!((rows("All points"), rows("Skipped points")), (17, 9));
    let lines = section(&page, "Distribution of latencies").unwrap().descendants();
    let drawn = lines.filter(|node| {
        node.has_tag_name("polyline") && node.ancestors().all(|up| up.attribute("class") != Some("swatch"))
    });
    assert_eq!(drawn.count(), 16, "a distribution of each point");
    assert!(
        text.contains("not a hardware figure")
            && text.contains("clock: virtual")
            && text.contains("b &amp; c.json")
    );
}

#[test]
fn every_row_of_an_experiment_is_in_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let device = "soft:size=16m,profile=optane,time=virtual";
    let found = json(&["bench", "batching", device, "--runtime", "1ms", "--repeat", "2", "-o", "json"]);
    let file = folder.path().join("e & f.json").display().to_string();
    std::fs::write(&file, found.to_string()).expect("a file");
    let (a, _) = result(&folder, "a.json", &SWEEP, |_| ());
    let both = page(&[&a, &file]);
    assert!(both.contains("e &amp; f.json") && section(&parsed(&both), "Skipped points").is_some());
    let text = page(&[&file]);
    let page = parsed(&text);
    let section = section(&page, "A: batching (e & f.json)").expect("its section");
    let drawn = marks(section, "f");
    let rows = found["rows"].as_array().unwrap();
    for row in rows {
        let of_row = |unit: &str| {
            let start = format!("A: {}: ", row["name"].as_str().unwrap());
            drawn.iter().filter(|title| title.starts_with(&start) && title.contains(unit)).count()
        };
        assert_eq!((of_row(" IOPS"), of_row(" p50 us"), of_row(" max us")), (1, 1, 1), "{row:#}");
        let expected = usize::from(row.get("expected_sq_doorbells_per_io").is_some());
        assert_eq!(of_row(" expected sq doorbells/io"), expected, "{row:#}");
    }
    assert_eq!(section.descendants().filter(|node| node.has_tag_name("tr")).count(), rows.len() + 1);
    let intervals = |node: &Node<'_, '_>| node.attribute("class") == Some("w");
    assert!(section.descendants().any(|node| intervals(&node)), "the interval of a rate");
}

#[test]
fn an_experiment_without_iops_shows_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let device = "soft:size=16m,profile=optane,time=virtual";
    let found = json(&["bench", "checkpoint", device, device, "--ops", "100", "-o", "json"]);
    let file = folder.path().join("checkpoint.json").display().to_string();
    std::fs::write(&file, found.to_string()).expect("a file");
    let text = page(&[&file]);
    let page = parsed(&text);
    let drawn = marks(section(&page, "A: checkpoint (checkpoint.json)").expect("its section"), "f");
    for row in found["rows"].as_array().unwrap() {
        let start = format!("A: {}: ", row["name"].as_str().unwrap());
        let of_row = |unit: &str| {
            drawn.iter().filter(|title| title.starts_with(&start) && title.ends_with(unit)).count()
        };
        let expected = usize::from(row.get("expected_bytes_per_s").is_some());
        assert_eq!((of_row(" expected MiB/s"), of_row(" MiB/s") - expected), (expected, 1), "{row:#}");
    }
}

#[test]
fn two_results_are_compared_by_their_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--axis", "iodepth=1,8", "--io-limit", "256k", "--repeat", "5"];
    let (a, _) = result(&folder, "a.json", &flags, |_| ());
    let faster = |report: &mut Value| {
        for run in report["runs"].as_array_mut().unwrap().iter_mut().filter(|run| run["point"] == "iodepth=8")
        {
            run["iops"] = (run["iops"].as_f64().unwrap() * 2.0).into();
        }
    };
    let (b, _) = result(&folder, "b.json", &flags, faster);
    let text = page(&[&a, &b]);
    let page = parsed(&text);
    let rows: Vec<Vec<String>> = section(&page, "Comparison")
        .unwrap()
        .descendants()
        .filter(|node| node.has_tag_name("tr"))
        .map(|row| row.children().map(|cell| cell.text().unwrap_or_default().to_owned()).collect())
        .collect();
    // Two of 252 ways, and two points.
    assert_eq!(rows[2], ["iodepth=8", &rows[2][1], &rows[2][2], "2.000", "5, 5", "0.016", "more"]);
    assert_eq!((rows[1][3].as_str(), rows[1][6].as_str()), ("1.000", "no difference shown"));
    let (c, _) = result(&folder, "c.json", &["--axis", "iodepth=1,8", "--io-limit", "256k"], faster);
    assert!(self::page(&[&a, &c]).contains("too few runs to tell: p cannot be below 0.67"));
}

#[test]
fn limits_of_hardware_bound_figures_of_hardware_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (soft, _) = result(&folder, "soft.json", &SWEEP, |_| ());
    let limits = ["--limit", "SSD=6.8GB", "--limit", "SSD commands=1.5Miops"];
    let text = page(&[&[soft.as_str()], &limits[..]].concat());
    assert!(
        text.contains("No roofline of A (soft.json): host API: software controller")
            && !text.contains("under the limits")
    );
    // The form of a result of hardware: none was measured.
    let hardware = |report: &mut Value| {
        (report["target"], report["data_path"]["controller"]) = ("cuda:0 (a GPU)".into(), "pcie".into());
    };
    let (hard, _) = result(&folder, "hard.json", &SWEEP, hardware);
    let text = page(&[&[hard.as_str()], &limits[..]].concat());
    let page = parsed(&text);
    assert_eq!(marks(section(&page, "Limits").unwrap(), "f").len(), 8, "every point lies under the limits");
    let on_cpu = |report: &mut Value| {
        hardware(report);
        report["target"] = "cpu".into();
        report["runs"][0]["job"]["api"] = "io".into();
    };
    let emulated = |report: &mut Value| {
        hardware(report);
        report["device"]["model"] = "QEMU NVMe Ctrl".into();
    };
    let (virt, _) = result(&folder, "virt.json", &SWEEP, emulated);
    let text = self::page(&[&[virt.as_str()], &limits[..]].concat());
    assert!(
        text.contains("No roofline of A (virt.json): its controller is emulated: QEMU NVMe Ctrl")
            && !text.contains("under the limits")
    );
    let (cpu, _) = result(&folder, "cpu.json", &SWEEP, on_cpu);
    let text = self::page(&[&[cpu.as_str()], &limits[..]].concat());
    assert!(
        text.contains("No roofline of A (cpu.json): target cpu: kernels on the CPU")
            && !text.contains("under the limits")
    );
}

#[test]
fn one_point_alone_and_older_results_have_pages() {
    let folder = tempfile::tempdir().unwrap();
    let older = |report: &mut Value| {
        report.as_object_mut().unwrap().remove("origin");
        let run = report["runs"][0].as_object_mut().unwrap();
        run.retain(|key, _| !["read_histogram", "series", "point", "order"].contains(&key.as_str()));
    };
    let (old, _) = result(&folder, "old.json", &["--io-limit", "64k"], older);
    let text = page(&[&old]);
    assert!(text.contains("the only point") && !text.contains("Distribution"), "{text}");
    let two = [
        "bench",
        "soft:size=1m,time=virtual",
        "soft:size=2m,time=virtual",
        "--api",
        "host",
        "--io-limit",
        "4k",
        "-o",
        "json",
    ];
    let group = folder.path().join("group.json").display().to_string();
    std::fs::write(&group, ok(&two)).unwrap();
    let page_of_two = page(&[&group]);
    assert!(page_of_two.contains("soft:size=1m") && page_of_two.contains("soft:size=2m"));
    let to = folder.path().join("page.html").display().to_string();
    assert_eq!(ok(&["report", &old, "-o", &to]), "");
    assert_eq!(std::fs::read_to_string(to).unwrap(), text);
}

#[test]
fn points_of_older_results_are_named_by_their_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let older = |report: &mut Value| {
        for run in report["runs"].as_array_mut().unwrap() {
            run.as_object_mut().unwrap().retain(|key, _| !["point", "order"].contains(&key.as_str()));
        }
    };
    let (old, _) = result(&folder, "old.json", &SWEEP, older);
    let text = page(&[&old]);
    let points = marks(section(&parsed(&text), "I/Os per second").unwrap(), "f");
    assert_eq!(points.len(), 8, "no sweep is one point: {points:?}");
    assert!(points.iter().any(|title| title.starts_with("A: bs=4k iodepth=8: ")), "{points:?}");
}

#[test]
fn a_file_without_an_axis_is_drawn_where_its_jobs_lie() {
    let folder = tempfile::tempdir().unwrap();
    let (a, _) = result(&folder, "a.json", &["--axis", "iodepth=1..8*2", "--io-limit", "64k"], |_| ());
    let (b, _) = result(&folder, "b.json", &["--iodepth", "32", "--io-limit", "64k"], |_| ());
    let text = page(&[&a, &b]);
    let page = parsed(&text);
    let iops = section(&page, "I/Os per second").unwrap();
    let labels: Vec<&str> =
        iops.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();
    assert!(labels.contains(&"32"), "a place of its own, and not the first: {labels:?}");
    let array = ["--api", "array", "--sharing", "shared", "--io-limit", "64k", "--axis", "cache=64k,128k"];
    let device = ["bench", "soft:size=1m,time=virtual", "-o", "json"];
    let cached = folder.path().join("cached.json").display().to_string();
    std::fs::write(&cached, ok(&[&device[..], &array].concat())).unwrap();
    let text = self::page(&[&cached, &b]);
    let page = parsed(&text);
    let iops = section(&page, "I/Os per second").unwrap();
    assert!(
        text.contains("Left out of pictures by cache, of which their jobs have none: B: the only point."),
        "{text}"
    );
    assert_eq!(marks(iops, "f").len(), 2, "the host has no cache");
}

#[test]
fn what_else_differs_stands_above_a_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, flags: &[&str], change: fn(&mut Value)| {
        let flags = [&["--axis", "iodepth=1,8", "--io-limit", "1m"], flags].concat();
        result(&folder, name, &flags, change).0
    };
    let a = of("a.json", &["--bs", "4k"], |_| ());
    let b = of("b.json", &["--bs", "128k", "--seed", "7"], |report| {
        report["target"] = "cuda:0 (a GPU)".into();
        report["runs"][0]["clock"] = "monotonic".into();
    });
    let text = page(&[&a, &b]);
    let line =
        "A and B are unlike: target cpu and cuda:0 (a GPU); clock virtual and monotonic; bs 4k and 128k<";
    assert!(text.contains(line), "{text}");
    let c = of("c.json", &["--bs", "4k", "--seed", "9"], |_| ());
    assert!(!page(&[&a, &c]).contains("unlike"), "a seed is no difference");
}

#[test]
fn what_is_no_result_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json").display().to_string();
    for (content, words) in [
        ("{", "no result of `warpbell bench -o json`"),
        ("{\"schema\": \"warpbell.plan/1\"}", "its schema is warpbell.plan/1"),
        ("{\"schema\": \"warpbell.bench/1\"}", "missing field"),
    ] {
        std::fs::write(&file, content).unwrap();
        let (code, line) = refused(&["report", &file]);
        assert!(code == 2 && line.starts_with(&file) && line.contains(words), "{line}");
    }
    let (none, _) = result(&folder, "none.json", &["--io-limit", "4k"], |report| {
        report["runs"][0]["partial"] = true.into()
    });
    assert!(refused(&["report", &none]).1.contains("it has no whole run"));
    let (broken, _) = result(&folder, "broken.json", &["--io-limit", "4k"], |report| {
        report["runs"][0]["read_histogram"] = "AAAA".into()
    });
    let words = "a histogram: it is no histogram of HdrHistogram";
    assert!(refused(&["report", &broken]).1.contains(words));
    let device = "soft:size=16m,profile=optane,time=virtual";
    let mut experiment = json(&["bench", "batching", device, "--runtime", "1ms", "-o", "json"]);
    experiment["rows"][1]["latency_histogram"] = "AAAA".into();
    std::fs::write(&file, experiment.to_string()).unwrap();
    let name = experiment["rows"][1]["name"].as_str().unwrap();
    assert!(refused(&["report", &file]).1.contains(&format!("{file}: row {name}: {words}")));
    assert!(refused(&["report"]).1.contains("<FILE>"));
}

#[test]
fn each_picture_is_a_file_that_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (a, _) = result(&folder, "a.json", &SWEEP, |_| ());
    let device = "soft:size=16m,profile=optane,time=virtual";
    let found = json(&["bench", "batching", device, "--runtime", "1ms", "-o", "json"]);
    let file = folder.path().join("e.json").display().to_string();
    std::fs::write(&file, found.to_string()).expect("a file");
    let text = page(&[&a, &file]);
    let pictures = folder.path().join("new/pictures").display().to_string();
    let said = ok(&["report", &a, &file, "--pictures", &pictures]);
    assert!(!said.contains("<html"), "no page that nobody asked for: {said}");
    let on_page = parsed(&text).descendants().filter(|node| node.has_tag_name("figure")).count();
    assert_eq!((said.lines().count(), std::fs::read_dir(&pictures).unwrap().count()), (on_page, on_page));
    let mut marks_in_files = 0;
    for name in said.lines() {
        let text = std::fs::read_to_string(name).unwrap();
        let alone = text.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for word in ["http", "href", "url(", "<style", "var(", "NaN"] {
            assert!(!alone.contains(word), "{word} in {name}");
        }
        let page = parsed(&text);
        let lines =
            page.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text());
        let words = lines.collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("not a hardware figure") && words.contains("clock: virtual"),
            "{name}: {words}"
        );
        marks_in_files += marks(page.root_element(), "f").len();
    }
    let in_page = marks(parsed(&text).root_element(), "f").len();
    assert!(in_page > 50 && marks_in_files == in_page, "{marks_in_files} of {in_page} marks");
    let rates = std::fs::read_to_string(format!("{pictures}/batching-iops.svg")).unwrap();
    assert!(rates.contains("gather=32"), "{rates}");
    let both = folder.path().join("r.html").display().to_string();
    ok(&["report", &a, "--pictures", &pictures, "-o", &both]);
    assert!(std::fs::read_to_string(&both).unwrap().ends_with("</html>\n"));
    let (_, error) = refused(&["report", &a, "--pictures", &a]);
    assert!(error.contains(&format!("--pictures {a}: ")), "{error}");
}

/// The cells of the table rows in a section, but for the headings.
fn cells(section: Node<'_, '_>) -> Vec<Vec<String>> {
    let rows = section.descendants().filter(|node| node.has_tag_name("tr"));
    let text = |node: Node<'_, '_>| node.text().unwrap_or_default().to_owned();
    let rows =
        rows.map(|row| row.children().filter(|cell| cell.has_tag_name("td")).map(text).collect::<Vec<_>>());
    rows.filter(|row| !row.is_empty()).collect()
}

#[test]
fn two_results_of_an_experiment_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let device = "soft:size=16m,profile=optane,time=virtual";
    let flags = ["--runtime", "1ms", "--repeat", "5", "-o", "json"];
    let found = json(&[&["bench", "batching", device], &flags[..]].concat());
    let file = |name: &str, change: fn(&mut Value)| {
        let mut found = found.clone();
        change(&mut found);
        let file = folder.path().join(name).display().to_string();
        std::fs::write(&file, found.to_string()).expect("a file");
        file
    };
    let slower = |found: &mut Value| {
        for each in found["rows"][0]["each"].as_array_mut().unwrap() {
            each["iops"] = (each["iops"].as_f64().unwrap() / 2.0).into();
        }
    };
    let (a, b) = (file("a.json", |_| ()), file("b.json", slower));
    let text = page(&[&a, &b]);
    let page = parsed(&text);
    let compared = section(&page, "Comparison of experiments").expect("the section");
    let rows = cells(compared);
    let names: Vec<&str> =
        found["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(rows.len(), 2 * names.len(), "each row by its rate and its tail: {rows:?}");
    assert!(rows[..names.len()].iter().map(|row| &row[0]).eq(names.iter()), "{rows:?}");
    assert_eq!((rows[0][3].as_str(), rows[0][4].as_str()), ("0.500", "5, 5"));
    assert!(
        rows[1..names.len()]
            .iter()
            .all(|row| row[3] == "1.000" && !["more", "less"].contains(&row[6].as_str()))
    );
    assert!(!text.contains("unlike"), "{text}");
    let c = file("c.json", |found| found["iodepth"] = 999.into());
    assert!(self::page(&[&a, &c]).contains("A and B are unlike: iodepth 32 and 999<"));
    let d = file("d.json", |found| found["origin"]["machine"]["cores"] = 999.into());
    let text = self::page(&[&a, &d]);
    assert!(text.contains("A and B are unlike: machine ") && text.contains(" with 999 cores"), "{text}");
    assert!(section(&parsed(&self::page(&[&a])), "Comparison of experiments").is_none());
}

#[test]
fn a_run_that_was_interrupted_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let cut = |report: &mut Value| report["runs"][1]["partial"] = true.into();
    let (a, _) = result(&folder, "a.json", &["--axis", "iodepth=1,2,4", "--io-limit", "64k"], cut);
    let text = page(&[&a]);
    let page = parsed(&text);
    let rows = cells(section(&page, "Skipped points").expect("the section"));
    assert_eq!(rows, [["A: iodepth=2", "interrupted after 16 I/Os: no result"]]);
    assert_eq!(marks(section(&page, "I/Os per second").unwrap(), "f").len(), 2);
}

#[test]
fn a_wide_heat_map_is_several() {
    let folder = tempfile::tempdir().unwrap();
    let axes = ["--axis", "iodepth=1..45+1", "--axis", "bs=512,4k", "--io-limit", "8k"];
    let (a, _) = result(&folder, "a.json", &axes, |_| ());
    let text = page(&[&a]);
    let page = parsed(&text);
    let heat = section(&page, "Two axes").expect("the section");
    let maps: Vec<Node<'_, '_>> = heat.descendants().filter(|node| node.has_tag_name("figure")).collect();
    let headings: Vec<&str> =
        heat.descendants().filter(|node| node.has_tag_name("h3")).filter_map(|node| node.text()).collect();
    let named = |ends: &str| format!("A: IOPS by iodepth and bs, {ends}");
    assert_eq!(headings, [named("1 to 15"), named("16 to 30"), named("31 to 45")]);
    assert!(maps.iter().all(|map| marks(*map, "h").len() == 30), "each with 15 columns of two");
    // One colour is one rate in all of them: the slowest point is in the first alone.
    let faintest = |map: &Node<'_, '_>| {
        map.descendants().filter(|node| node.attribute("fill-opacity") == Some("0.05")).count()
    };
    assert!(faintest(&maps[0]) > 0 && maps[1..].iter().all(|map| faintest(map) == 0));
}
