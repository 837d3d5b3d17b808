// Flink SQL over the topics of `forebay bench nexmark`: one of Nexmark's queries, into files of CSV.
//
// Arguments: query, brokers, topics of people, auctions and bids, group, folder of the results, parallelism.
//
// One process with Flink's own mini cluster, as for the workload `flink` (Windows.java). The queries are written in the form of Flink's own
// documentation of window aggregation, window join and top-n over the columns that are compared.
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

public class Nexmark {
    static TableEnvironment tables;
    static String brokers, group;

    static void topic(String table, String topic, String columns) {
        tables.executeSql(
            "CREATE TABLE " + table + " (" + columns + ", `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' SECOND)"
                + " WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '" + brokers + "', 'topic' = '" + topic + "',"
                + " 'properties.group.id' = '" + group + "', 'scan.startup.mode' = 'earliest-offset',"
                + " 'scan.bounded.mode' = 'latest-offset', 'value.format' = 'json', 'value.json.timestamp-format.standard' = 'SQL')");
    }

    /** Milliseconds since 1970 of a time, as SQL. */
    static String millis(String time) {
        return "1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', " + time + ") AS BIGINT)";
    }

    public static void main(String[] args) throws Exception {
        String query = args[0], folder = args[6];
        brokers = args[1];
        group = args[5];
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", args[7]);
        settings.setString("execution.checkpointing.interval", "10s");
        // Left to itself Flink keeps checkpoints in the job manager, at most 5 MiB of each operator; it begins again where one is larger, and so never ends.
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", "file://" + folder + "-checkpoints");
        // A fault is told, and not tried again and again within the measurement.
        settings.setString("restart-strategy.type", "none");
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("table.exec.mini-batch.enabled", "true");
        settings.setString("table.exec.mini-batch.allow-latency", "1s");
        settings.setString("table.exec.mini-batch.size", "50000");
        tables = TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());

        topic("people", args[2], "id BIGINT, name STRING");
        topic("auctions", args[3], "id BIGINT, seller BIGINT");
        topic("bids", args[4], "auction BIGINT, bidder BIGINT, price BIGINT");

        String ten = "INTERVAL '10' SECOND";
        String columns, select;
        switch (query) {
            case "q5":
                String hop = "SELECT auction, count(*) AS num, window_start, window_end"
                    + " FROM TABLE(HOP(TABLE bids, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, " + ten + "))"
                    + " GROUP BY auction, window_start, window_end";
                columns = "window_end BIGINT, most BIGINT";
                select = "SELECT " + millis("window_end") + ", num FROM ("
                    + "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY num DESC) AS place FROM (" + hop + ")"
                    + ") WHERE place <= 1";
                break;
            case "q7":
                columns = "window_end BIGINT, highest BIGINT, auction BIGINT, bidder BIGINT";
                select = "SELECT " + millis("window_end") + ", price, auction, bidder FROM ("
                    + "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS place"
                    + " FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(`dateTime`), " + ten + "))"
                    + ") WHERE place <= 1";
                break;
            case "q8":
                columns = "id BIGINT, name STRING, started BIGINT";
                select = "SELECT P.id, P.name, " + millis("P.window_start") + " FROM ("
                    + "SELECT id, name, window_start, window_end FROM TABLE(TUMBLE(TABLE people, DESCRIPTOR(`dateTime`), " + ten + "))"
                    + " GROUP BY id, name, window_start, window_end) P JOIN ("
                    + "SELECT seller, window_start, window_end FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(`dateTime`), " + ten + "))"
                    + " GROUP BY seller, window_start, window_end) A"
                    + " ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end";
                break;
            default:
                throw new IllegalArgumentException(query);
        }
        tables.executeSql(
            "CREATE TABLE results (" + columns + ") WITH ('connector' = 'filesystem', 'path' = 'file://" + folder + "', 'format' = 'csv')");
        tables.executeSql("INSERT INTO results " + select).await();
    }
}
