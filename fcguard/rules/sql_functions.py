"""Functions of databases that act, read files, reach the network or wait; and functions that are known to be harmless."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from fcguard.rules.globs import word_set

__all__ = ["FORBIDDEN_FUNCTIONS", "HARMLESS_FUNCTIONS", "SECRET_TABLES", "is_listed"]

FORBIDDEN_FUNCTIONS: Final[tuple[str, ...]] = (
    # PostgreSQL: wait, files, large objects, other servers, other sessions, settings, sequences, locks, text run as SQL
    *(
        "pg_sleep*",
        "pg_read_*",
        "pg_ls_*",
        "pg_stat_file",
        "pg_file_*",
        "lo_*",
        "loread",
        "lowrite",
        "dblink*",
        "pg_terminate_backend",
    ),
    *(
        "pg_cancel_backend",
        "pg_reload_conf",
        "pg_rotate_logfile*",
        "pg_promote",
        "pg_switch_wal",
        "pg_*backup*",
        "pg_create_*",
    ),
    *(
        "pg_drop_*",
        "pg_replication_*",
        "pg_logical_*",
        "pg_advisory_*",
        "pg_try_advisory_*",
        "pg_notify",
        "pg_export_snapshot",
    ),
    *(
        "pg_stat_reset*",
        "pg_import_*",
        "pg_current_logfile",
        "set_config",
        "setval",
        "nextval",
        "next_value_for",
        "setseed",
    ),
    *(
        "query_to_xml*",
        "table_to_xml*",
        "schema_to_xml*",
        "database_to_xml*",
        "cursor_to_xml*",
        "xpath_table",
        "ts_stat",
        "crosstab*",
    ),
    *(
        "pgp_*",
        "txid_current",
        "pg_current_xact_id",
        "adminpack*",
        "http_get",
        "http_post",
        "http",
        "net.http_*",
        "plpy*",
    ),
    # MySQL, MariaDB
    *(
        "sleep",
        "benchmark",
        "load_file",
        "get_lock",
        "release_lock",
        "release_all_locks",
        "is_free_lock",
        "is_used_lock",
        "sys_exec",
    ),
    *(
        "sys_eval",
        "sys_get",
        "sys_set",
        "lib_mysqludf_*",
        "master_pos_wait",
        "source_pos_wait",
        "wait_for_executed_gtid_set",
    ),
    *("extractvalue", "updatexml", "name_const", "keyring_*", "asynchronous_*", "group_replication_*"),
    # SQL Server
    *("xp_*", "sp_*", "openrowset", "openquery", "opendatasource", "openxml", "fn_*", "sys.fn_*", "change_tracking_*"),
    # SQLite
    *(
        "load_extension",
        "readfile",
        "writefile",
        "edit",
        "fts3_tokenizer",
        "randomblob",
        "zeroblob",
        "fsdir",
        "lsdir",
        "sqlite_dbpage",
    ),
    # Oracle
    *(
        "utl_*",
        "dbms_*",
        "httpuritype",
        "dburitype",
        "xdburitype",
        "sys.dbms_*",
        "sys.utl_*",
        "owa_*",
        "ctxsys.*",
        "sys_context",
    ),
    # DuckDB, ClickHouse, Snowflake, Spark, Trino, BigQuery: files, URLs, other servers, processes, paid models
    *(
        "read_*",
        "parquet_scan",
        "csv_scan",
        "json_scan",
        "sniff_csv",
        "parquet_*",
        "sqlite_scan",
        "postgres_*",
        "mysql_*",
        "iceberg_*",
    ),
    *(
        "delta_scan",
        "getenv",
        "query_table",
        "query",
        "install*",
        "file",
        "files",
        "url",
        "urlcluster",
        "s3",
        "s3cluster",
        "gcs",
        "hdfs",
    ),
    *(
        "hdfscluster",
        "azureblobstorage*",
        "remote",
        "remotesecure",
        "cluster",
        "clusterallreplicas",
        "jdbc",
        "odbc",
        "executable",
    ),
    *(
        "mongodb",
        "redis",
        "sleepeachrow",
        "input",
        "reflect",
        "java_method",
        "try_reflect",
        "external_query",
        "raw_query",
    ),
    *(
        "system$*",
        "secret",
        "to_file",
        "ai_*",
        "generate_text",
        "generate_table",
        "generate_embedding",
        "ml.*",
        "cortex.*",
        "snowflake.*",
    ),
    *("current_setting", "result_scan", "dictget*", "identifier", "dynamic_identifier", "catboostevaluate"),
)
"""Names and globs, in lower case, of functions that are refused even in a plain SELECT."""


HARMLESS_FUNCTIONS: Final = word_set(
    # Common functions without effect that the parser does not know by itself in every dialect.
    "now date time datetime curdate curtime sysdate getdate getutcdate sysdatetime sysutcdatetime clock_timestamp statement_timestamp "
    "transaction_timestamp timeofday unix_timestamp from_unixtime to_timestamp to_date to_char to_number strftime julianday "
    "unixepoch age date_part datepart datename date_format timediff makedate maketime period_add period_diff sec_to_time "
    "time_to_sec str_to_date addtime subtime adddate subdate eomonth isdate switchoffset todatetimeoffset "
    "len lpad rpad ltrim rtrim btrim instr position locate charindex patindex substr mid quotename quote_ident quote_literal "
    "quote_nullable printf format_number hex unhex char nchar unicode ascii reverse replicate translate strpos split_part "
    "regexp_match regexp_matches regexp_split_to_array regexp_split_to_table regexp_substr initcap similarity word_similarity "
    "levenshtein difference soundex metaphone unaccent isnull ifnull nvl nvl2 iif choose greatest least try_convert parse "
    "try_parse isnumeric mod div trunc truncate sign pi cot log10 log2 conv crc32 bin oct gcd lcm random rand newid "
    "md5 sha1 sha2 sha224 sha256 sha384 sha512 hashbytes digest checksum encode decode "
    "count total sum avg min max median mode group_concat string_agg listagg json_agg jsonb_agg json_object_agg jsonb_object_agg "
    "array_agg json_group_array json_group_object bit_and bit_or bit_xor every stddev variance var_pop var_samp approx_distinct "
    "json json_valid json_type json_array json_object json_extract json_each json_tree json_array_length json_quote json_query "
    "json_value json_contains json_contains_path json_search json_keys json_length json_depth json_unquote json_pretty json_table "
    "openjson isjson json_build_object json_build_array jsonb_build_object jsonb_build_array json_array_elements "
    "json_array_elements_text jsonb_array_elements jsonb_array_elements_text json_object_keys jsonb_object_keys "
    "jsonb_array_length json_extract_path json_extract_path_text jsonb_extract_path jsonb_extract_path_text json_each_text "
    "jsonb_each jsonb_each_text json_typeof jsonb_typeof jsonb_pretty jsonb_path_query jsonb_path_query_array jsonb_path_exists "
    "row_to_json to_json to_jsonb jsonb_set jsonb_strip_nulls array_length array_upper array_lower cardinality array_position "
    "array_to_string string_to_array unnest generate_subscripts tovarchar to_varchar try_to_number try_to_date zeroifnull "
    "to_tsvector to_tsquery plainto_tsquery phraseto_tsquery websearch_to_tsquery ts_rank ts_rank_cd ts_headline match against bm25 "
    "snippet highlight st_distance st_within st_contains st_intersects st_dwithin st_point st_makepoint st_x st_y st_area "
    "st_length st_astext st_asgeojson st_setsrid st_geomfromtext st_transform st_distance_sphere "
    "version sqlite_version database schema current_schema user current_user session_user system_user pg_typeof typeof "
    "pg_size_pretty pg_relation_size pg_total_relation_size pg_table_size pg_database_size pg_get_viewdef pg_get_indexdef "
    "pg_get_constraintdef obj_description col_description format_type to_regclass has_table_privilege object_name object_id "
    "db_name schema_name type_name col_name columnproperty objectproperty scope_identity row_count found_rows last_insert_id changes "
    "total_changes last_insert_rowid inet_aton inet_ntoa inet6_aton inet6_ntoa host masklen network uuid uuid_to_bin bin_to_uuid "
    "gen_random_uuid uuid_generate_v4 tostring toint32 toint64 touint64 todate todatetime tostartofday tostartofmonth toyyyymm "
    "uniq uniqexact countif sumif avgif argmin argmax any_value first last width_bucket likelihood likely unlikely nullif coalesce "
    # MySQL
    "find_in_set field make_set strcmp weekday yearweek microsecond from_days get_format json_arrayagg json_objectagg json_insert "
    "json_merge_patch json_merge_preserve json_overlaps json_replace json_storage_size octet_length ord is_ipv4 is_ipv6 uuid_short "
    "coercibility charset connection_id bit_count uncompress "
    # PostgreSQL
    "string_to_table array_replace array_ndims array_fill trim_array isfinite make_date make_timestamptz parse_ident scale trim_scale "
    "range_merge lower_inc upper_inc lower_inf upper_inf isempty jsonb_path_query_first jsonb_path_match jsonb_insert "
    "jsonb_populate_record jsonb_populate_recordset jsonb_to_record jsonb_to_recordset json_to_record json_to_recordset "
    "json_populate_record json_populate_recordset akeys avals setweight numnode hostmask netmask broadcast pg_column_size "
    "pg_get_functiondef pg_get_userbyid pg_is_in_recovery pg_postmaster_start_time pg_table_is_visible to_regtype num_nulls "
    "num_nonnulls convert_from convert_to get_byte cosine_distance l2_distance inner_product show_trgm strict_word_similarity "
    "st_buffer st_union st_collect st_centroid st_makeenvelope st_geogfromtext st_geogpoint st_srid st_isvalid "
    # SQL Server, Oracle, SQLite
    "string_split string_escape str datetime2fromparts date_bucket json_modify json_path_exists stdevp varp user_name host_name "
    "app_name serverproperty object_schema_name json_patch jsonb quote percentile regexp lnnvl numtodsinterval numtoyminterval "
    "instrb substrb lengthb sys_guid ora_hash rowidtochar sys_connect_by_path ratio_to_report wm_concat bitand bitor remainder "
    "to_clob sys_extract_utc from_tz "
    # DuckDB, Spark, Snowflake
    "list_aggregate list_unique list_slice list_sum list_avg map_values map_extract date_sub try_strptime damerau_levenshtein jaccard "
    "hash histogram product entropy json_structure element_at zip_with forall xxhash64 json_tuple schema_of_json pmod hypot bround "
    "url_decode url_encode monotonically_increasing_id haversine conditional_change_event conditional_true_event ieee_divide "
    # ClickHouse
    "grouparray groupuniqarray arraysort arrayelement hasany hasall indexof empty notempty replaceone replaceall replaceregexpone "
    "replaceregexpall extractall arraystringconcat tostartofweek tostartofhour tostartofminute tostartofquarter tostartofyear "
    "tostartofinterval tostartoffiveminutes toyear toquarter tomonth todayofmonth todayofweek tohour tominute tosecond toyyyymmdd "
    "tounixtimestamp fromunixtimestamp today yesterday adddays addmonths subtractdays subtractmonths parsedatetimebesteffort "
    "todatetime64 tofloat64 todecimal64 toint8 toint16 touint8 touint16 touint32 tointornull toint64ornull touuid multiif "
    "assumenotnull tonullable quantiles uniqcombined uniqhll12 avgweighted sumwithoverflow anylast anyheavy topk deltasum retention "
    "windowfunnel sequencematch runningdifference neighbor rownumberinallblocks jsonextractint jsonextractfloat jsonextractbool "
    "jsonhas visitparamextractstring siphash64 intdiv modulo greatcircledistance geodistance ipv4numtostring ipv4stringtonum "
    "topleveldomain cutquerystring urlhierarchy tupleelement mapkeys mapvalues generateuuidv4 tolowcardinality"
)
"""Lower-case names of functions without effect, beside those the parser knows as standard ones."""

SECRET_TABLES: Final = frozenset(
    {
        *(
            "pg_shadow",
            "pg_authid",
            "pg_user_mapping",
            "pg_user_mappings",
            "pg_hba_file_rules",
            "pg_file_settings",
            "pg_largeobject",
        ),
        *("mysql.user", "mysql.db", "mysql.global_priv", "mysql.general_log", "mysql.slow_log", "mysql.proxies_priv"),
        *("sys.sql_logins", "sys.syslogins", "master.sys.sql_logins", "sys.server_principals", "sys.credentials"),
        *("sysxlogins", "syslogins", "sys.linked_logins", "sys.remote_logins", "pg_subscription"),
        *("mysql.slave_master_info", "mysql.servers", "mysql.password_history"),
        *(
            "sys.user$",
            "dba_users",
            "sys.dba_users",
            "sys.link$",
            "system.users",
            "system.processes",
            "performance_schema.user_variables_by_thread",
        ),
    }
)
"""Tables that hold credentials of the database itself."""


def is_listed(name: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a function's lower-case name, or what is left of it without its first qualifiers, fits one of the patterns."""
    parts = name.split(".")
    tails = [".".join(parts[start:]) for start in range(len(parts))] + [parts[0]]
    return any(fnmatchcase(tail, pattern) for tail in tails for pattern in patterns)
