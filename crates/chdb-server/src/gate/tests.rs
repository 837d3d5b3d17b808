use super::*;

fn refused(sql: &str) -> bool {
    statement(sql.as_bytes()).is_err()
}

#[test]
fn functions_that_read_files_are_refused_however_they_are_written() {
    for sql in [
        "SELECT file('/etc/passwd')",
        "SELECT FILE ('/etc/passwd')",
        "SELECT file/* x */('/etc/passwd')",
        "SELECT `file`('/etc/passwd')",
        "SELECT \"file\"('/etc/passwd')",
        r"SELECT `fi\x6ce`('/etc/passwd')",
        "SELECT * APPLY(file) FROM (SELECT '/etc/passwd')",
        "SELECT * APPLY file FROM (SELECT '/etc/passwd')",
        "SELECT arrayMap(file, ['/etc/passwd'])",
        "SELECT arrayMap((file), ['/etc/passwd'])",
        "SELECT arrayMap(x -> file(x), ['/etc/passwd'])",
        "CREATE FUNCTION f AS x -> file(x)",
        "ALTER TABLE t ADD COLUMN a String DEFAULT file('/etc/passwd')",
        "CREATE TABLE t (a String DEFAULT file('/etc/passwd')) ENGINE = Memory",
        "INSERT INTO FUNCTION file('/tmp/x') SELECT 1",
        "INSERT INTO TABLE FUNCTION file('/tmp/x') SELECT 1",
        "DESCRIBE TABLE file('/etc/passwd')",
        "SELECT * FROM executable('x', TSV, 'a String')",
        "CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '/tmp/')",
        // What another lexer could read otherwise.
        "SELECT $ $ ' $ $ , file('/etc/passwd') -- '",
        "SELECT a$b$ file('/etc/passwd'), c$b$",
        "SELECT \u{2018}'\u{2019}, file('/etc/passwd') -- '",
    ] {
        assert!(refused(sql), "{sql}");
    }
}

#[test]
fn columns_and_tables_of_such_names_are_none_of_it() {
    for sql in [
        "SELECT file FROM logs WHERE file IN ('a')",
        "SELECT lower(file), logs.file, t.`file` FROM logs",
        "SELECT 'file', 'a file of 3 (three)', \"file\" FROM t",
        "SELECT format('{} of {}', a, concat(b, c)), 'naïve', `Straße` FROM t -- über",
        "SELECT * FROM format(JSONEachRow, 'a UInt8, b String', '{\"a\":1}')",
        "SELECT * FROM generateRandom('a UInt8', 1, 10, 2)",
        "SELECT dialect FROM t WHERE dialect = 'sql'",
        "SELECT 1 /* a /* nested */ comment */ // and a line",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(NULL()) LAYOUT(FLAT()) LIFETIME(0)",
        "INSERT INTO file (a, b) SELECT 1, 2",
        "INSERT INTO TABLE default.file (a) SELECT 1",
        "CREATE TABLE file (a Int8) ENGINE = MergeTree ORDER BY a",
        "CREATE TABLE IF NOT EXISTS d.file (a Int8) ENGINE = Memory",
        "SELECT profile(1), filesystemAvailable(), file_1(2)",
        "SELECT engine FROM system.tables WHERE engine = 'File'",
        "CREATE VIEW v AS SELECT engine, source FROM system.tables",
        "SELECT arrayMap(x -> x + 1, files) FROM t",
    ] {
        assert!(!refused(sql), "{sql}: {:?}", statement(sql.as_bytes()));
    }
}

#[test]
fn what_the_engine_could_read_otherwise_is_refused() {
    for sql in [
        "SELECT file\u{b}('/p')",
        "SELECT file\u{a0}('/p')",
        "SELECT file\u{2003}('/p')",
        "SELECT file\u{feff}('/p')",
        "SELECT 1\u{a0}",
        "SELECT 1 \u{c} -- x",
        "SELECT 1 /* ' */\u{3000}",
        "SELECT 1 \u{1}",
        "SELECT 5\u{2212}3",
        "SELECT \u{2018}a\u{2019}",
        "SELECT \u{201c}a\u{201d}",
        "SELECT $ ' $, 1 -- '",
        "SELECT $a, 1",
        // Comments that end elsewhere than they seem to.
        "SELECT 1 // '\n, file('/p'), ''",
        "SELECT /* /* */ ' */ 1, file('/p') /* ' */",
        "CREATE TABLE t (a Int8) ENGINE\u{b}=\u{b}EmbeddedRocksDB(0, '/p') PRIMARY KEY a",
        "SELECT 1 FORMAT Template SETTINGS format_template_row\u{a0}= '/p'",
    ] {
        assert!(refused(sql), "{sql:?}");
    }
    let told = statement("SELECT file\u{a0}('/p')".as_bytes()).unwrap_err().to_string();
    assert!(told.contains("\\u{a0}") && told.contains("outside of its strings"), "{told}");
}

#[test]
fn strings_that_the_engine_may_read_as_sql_are_looked_into() {
    for sql in [
        "SELECT * FROM format(JSONEachRow,'a UInt8, b String DEFAULT file(''/p'')','{\"a\":1}')",
        r"SELECT * FROM format(JSONEachRow,'a UInt8, b String DEFAULT \x66ile(\'/p\')','{}')",
        r"SELECT * FROM format(JSONEachRow,'a String DEFAULT `fi\\x6ce`(\'/p\')','{}')",
        "SELECT * FROM format(JSONEachRow,'a String DEFAULT file\u{a0}/* ( */(''/p'')','{}')",
        "SELECT * FROM format(JSONEachRow, x'612055496E74382044454641554C542066696C6528272F702729', '{}')",
        "SELECT * FROM format(Values, 'a String', $$(file('/p'))$$)",
        "SELECT * FROM format(JSONEachRow,'a Array(String) DEFAULT [1] APPLY file','{}')",
        "INSERT INTO t SELECT a FROM input('a String DEFAULT file(''/p'')')",
        "SELECT structureToCapnProtoSchema('a String DEFAULT file(''/p'')')",
        "SELECT * FROM viewExplain('EXPLAIN', 'x', (SELECT 1)) WHERE 'eval(''SELECT 1'')' = ''",
        // Put together where it cannot be seen.
        "SELECT * FROM format(JSONEachRow, concat('a String DEFAULT fi', 'le(''/p'')'), '{}')",
        "SELECT * FROM format(JSONEachRow, {s:String}, '{}')",
        "WITH (SELECT s FROM t) AS s SELECT * FROM format(JSONEachRow, s, '{}')",
        "SELECT * FROM generateRandom(reverse('...'))",
        "INSERT INTO FUNCTION null('a String DEFAULT fi' || 'le(1)') VALUES ('1')",
        "SET param_f = 'file'",
    ] {
        assert!(refused(sql), "{sql}");
    }
    assert!(values(b"((SELECT b FROM format(JSONEachRow, 'b String DEFAULT file(''/p'')', '{}')))").is_err());
    assert!(may_call(b"((SELECT 1))"));
    let pair = |value: &str| [("f".to_owned(), value.to_owned())];
    let by_name = b"SELECT arrayMap({f:Identifier}, ['/p'])";
    assert!(parameters(by_name, &pair("file")).is_err() && parameters(by_name, &pair("`fi\\x6ce`")).is_err());
    assert!(parameters(by_name, &pair("files")).is_ok());
    assert!(parameters(b"SELECT {f:String}", &pair("file")).is_ok());
}

#[test]
fn engines_and_sources_beyond_the_folder_are_refused() {
    for sql in [
        "CREATE TABLE t (a Int8) ENGINE = URL('http://h/', TSV)",
        "create table t (a Int8) engine File(TSV)",
        "CREATE TABLE t (a Int8) ENGINE=EmbeddedRocksDB(0, '/tmp/x') PRIMARY KEY a",
        "CREATE TABLE t (a Int8) ENGINE = `EmbeddedRocksDB`(0, '/tmp/x') PRIMARY KEY a",
        r"CREATE TABLE t (a Int8) ENGINE = `U\x52L`('http://h/', TSV)",
        "CREATE MATERIALIZED VIEW v ENGINE = S3('http://h/') AS SELECT 1",
        "CREATE DATABASE d ENGINE = Filesystem('/etc')",
        "ATTACH DATABASE d ENGINE = SQLite('/tmp/x')",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(FILE(path '/x' format TSV)) LAYOUT(FLAT()) LIFETIME(0)",
        "CREATE OR REPLACE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(HTTP(url 'http://h/')) LAYOUT(FLAT())",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(CLICKHOUSE(HOST 'h' TABLE 't')) LAYOUT(FLAT())",
        "ATTACH TABLE t FROM '/tmp/' (a Int8) ENGINE = MergeTree ORDER BY a",
        "BACKUP TABLE t TO File('/tmp/x')",
        "RESTORE TABLE t FROM S3('http://h/')",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(CLICKHOUSE(TABLE 't')) LAYOUT(SSD_CACHE(PATH '/tmp/x'))",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(NULL()) LAYOUT(complex_key_ssd_cache(path '/tmp/x'))",
        "CREATE DICTIONARY d (k UInt8, v String) PRIMARY KEY k SOURCE(CLICKHOUSE(QUERY 'SELECT 1 AS k, f AS v')) LAYOUT(FLAT())",
        "CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(TABLE 't' WHERE 'k = 1')) LAYOUT(FLAT())",
        "CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(DB 'd' TABLE 't' INVALIDATE_QUERY 'SELECT 1')) LAYOUT(FLAT())",
        "CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(DB currentDatabase() QUERY 'SELECT 1')) LAYOUT(FLAT())",
        "CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(TABLE 't' 'query' 'SELECT 1')) LAYOUT(FLAT())",
        "CREATE DATABASE d ENGINE = NewKindOfEngine('/etc')",
        "DROP TABLE IF EXISTS t PARALLEL WITH CREATE TABLE u (a Int8) ENGINE = EmbeddedRocksDB(0, '/tmp/x') PRIMARY KEY a",
        "DROP TABLE IF EXISTS t parallel /* x */ with CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(HTTP(url 'http://h/'))",
    ] {
        assert!(refused(sql), "{sql}");
    }
    for sql in [
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(CLICKHOUSE(TABLE 't')) LAYOUT(FLAT()) LIFETIME(0)",
        "CREATE TABLE t (a Int8) ENGINE = ReplacingMergeTree(a) ORDER BY a",
        "ATTACH TABLE t",
        "CREATE DATABASE d ENGINE = Atomic",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(CLICKHOUSE(TABLE 't')) LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0)",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(CLICKHOUSE(DB 'd' TABLE t USER 'default')) LAYOUT(FLAT())",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(CLICKHOUSE(TABLE 't' DB currentDatabase())) LAYOUT(COMPLEX_KEY_DIRECT())",
        "CREATE VIEW v AS SELECT engine FROM system.tables",
        "SELECT parallel FROM t WHERE parallel IN (1)",
    ] {
        assert!(!refused(sql), "{sql}");
    }
}

#[test]
fn settings_that_name_a_file_are_refused_in_text_and_beside_it() {
    assert!(refused("SELECT 1 FORMAT Template SETTINGS format_template_row = '/etc/passwd'"));
    assert!(refused("SET input_format_record_errors_file_path = '/tmp/x'"));
    assert!(refused("SELECT 1 AS x FORMAT Protobuf SETTINGS output_format_schema = '/tmp/x'"));
    // The engine takes escapes in a setting's name.
    assert!(refused(r"SET `format\x5fschema` = '/etc/passwd:x'"));
    assert!(refused(r#"SELECT 1 SETTINGS max_threads = 1, "output\x5fformat_schema" = '/tmp/x'"#));
    assert!(!refused(r"SELECT `a\x5fb` FROM t WHERE `a\x5fb` = 1"));
    assert!(!refused("SELECT 1 SETTINGS max_threads = 1"));
    let pair = |name: &str| [(name.to_owned(), "x".to_owned())];
    assert!(settings(&pair("format_schema")).is_err());
    assert!(settings(&pair("output_format_schema")).is_err());
    assert!(settings(&pair("additional_result_filter")).is_err());
    let unused = |name: &str, value: &str| settings(&[(name.to_owned(), value.to_owned())]);
    assert!(
        unused("additional_result_filter", "").is_ok() && unused("additional_table_filters", "{}").is_ok()
    );
    assert!(!refused("SELECT 1 SETTINGS additional_result_filter = '', additional_table_filters = '{}'"));
    assert!(refused("SELECT 1 SETTINGS additional_result_filter = 'x'"));
    assert!(refused("SELECT 1 SETTINGS additional_table_filters = {'t': 'x'}"));
    assert!(refused("SET dialect = 'prql'"));
    assert!(settings(&pair("max_threads")).is_ok());
}

#[test]
fn values_may_call_functions_and_are_looked_through() {
    assert!(values(b"(1, file('/etc/passwd'))").is_err());
    assert!(values(b"(1, 'file(1)'), (2, now())").is_ok());
    assert!(may_call(b"(1, File('/x'))") && may_call(br"(`fi\x6ce`('/x'))"));
    assert!(!may_call(b"(1, 'abc'), (2, now())"));
}

#[test]
fn fuzz_gate() {
    let words =
        ["file(", "`", "$", "/*", "*/", "--", "'", "\\", "ENGINE", "SOURCE(", "APPLY", "\u{2018}", "INTO"];
    let example =
        "CREATE TABLE t (a String DEFAULT file('x')) ENGINE = URL('u') SETTINGS disk = disk(type = local)";
    testkit::Fuzz::new("gate").example(example).words(words).run(5_000, |bytes| {
        let _ = (statement(bytes), values(bytes), may_call(bytes));
    });
}
