// Flink SQL over the topic of `forebay bench flink`: the same windows and aggregates, into files of CSV.
//
// Arguments: brokers, topic, group, folder of the results, milliseconds of a window, milliseconds of lateness, parallelism.
//
// One process with Flink's own mini cluster: its job manager and task manager share it, so its CPU is all that Flink takes. Checkpoints every
// ten seconds, as exactly-once files need them. There is no sink for ClickHouse among Flink's modules.
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

public class Windows {
    /** Milliseconds as SQL writes an interval of days to seconds. */
    static String interval(long ms) {
        long s = ms / 1000;
        return String.format("%d %02d:%02d:%02d.%03d", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60, ms % 1000);
    }

    public static void main(String[] args) throws Exception {
        String brokers = args[0], topic = args[1], group = args[2], folder = args[3];

        Configuration settings = new Configuration();
        settings.setString("parallelism.default", args[6]);
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
        TableEnvironment tables = TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());

        tables.executeSql(
            "CREATE TABLE readings ("
                + " sensorId INT NOT NULL, sensorType INT NOT NULL, temperature DOUBLE NOT NULL, humidity DOUBLE NOT NULL,"
                + " pressure DOUBLE NOT NULL, batteryLevel DOUBLE NOT NULL, status INT NOT NULL, `timestamp` TIMESTAMP(3) NOT NULL,"
                + " WATERMARK FOR `timestamp` AS `timestamp` - INTERVAL '" + interval(Long.parseLong(args[5])) + "' DAY TO SECOND(3)"
                + ") WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '" + brokers + "', 'topic' = '" + topic + "',"
                + " 'properties.group.id' = '" + group + "', 'scan.startup.mode' = 'earliest-offset',"
                + " 'scan.bounded.mode' = 'latest-offset', 'value.format' = 'avro')");

        StringBuilder columns = new StringBuilder(), aggregates = new StringBuilder();
        for (String metric : new String[] {"temperature", "humidity", "pressure", "batteryLevel"}) {
            for (String function : new String[] {"sum", "min", "max", "avg"}) {
                columns.append(", ").append(metric).append('_').append(function).append(" DOUBLE");
                aggregates.append(", ").append(function).append('(').append(metric).append(')');
            }
        }
        tables.executeSql(
            "CREATE TABLE results (sensor INT, window_start BIGINT, readings BIGINT" + columns + ")"
                + " WITH ('connector' = 'filesystem', 'path' = 'file://" + folder + "', 'format' = 'csv')");

        tables.executeSql(
            "INSERT INTO results SELECT sensorId, 1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) AS BIGINT),"
                + " count(*)"
                + aggregates
                + " FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(`timestamp`), INTERVAL '" + interval(Long.parseLong(args[4])) + "' DAY TO SECOND(3)))"
                + " GROUP BY sensorId, window_start, window_end").await();
    }
}
