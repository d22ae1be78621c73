// Writes Parquet files with parquet-java. Each line of the input is a job: tab-separated parts, see `writers_apart.py`.
//
// It is compiled once per version of the library, so it uses only features of version 1.8.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.ParquetProperties.WriterVersion;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.GroupWriteSupport;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;

public class Rows {
    public static void main(String[] arguments) throws Exception {
        // Version 1.8 logs to the standard output.
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in));
        for (String job = jobs.readLine(); job != null; job = jobs.readLine()) {
            try {
                write(job.split("\t"));
                answers.println("written");
            } catch (Throwable error) {
                answers.println("refused: " + String.valueOf(error).replace('\n', ' '));
            }
        }
    }

    // The parts: target, file of rows, file of the schema, version, bytes of row groups and pages, dictionary, codec.
    private static void write(String[] job) throws Exception {
        MessageType schema = MessageTypeParser.parseMessageType(new String(Files.readAllBytes(Paths.get(job[2]))));
        Configuration configuration = new Configuration(false);
        GroupWriteSupport.setSchema(schema, configuration);
        List<String> lines = Files.readAllLines(Paths.get(job[1]));
        String[] types = lines.get(0).split("\t");
        ParquetWriter<Group> writer = new ParquetWriter<Group>(
            new Path(job[0]), new GroupWriteSupport(), CompressionCodecName.valueOf(job[7]), Integer.parseInt(job[4]),
            Integer.parseInt(job[5]), Integer.parseInt(job[5]), Boolean.parseBoolean(job[6]), false,
            WriterVersion.valueOf(job[3]), configuration);
        for (String line : lines.subList(1, lines.size())) {
            String[] values = line.split("\t", -1);
            Group group = new SimpleGroup(schema);
            for (int at = 0; at < types.length; at++) {
                if (!values[at].equals("-")) {
                    add(group, at, types[at], values[at].substring(1), schema);
                }
            }
            writer.write(group);
        }
        writer.close();
    }

    private static void add(Group group, int at, String type, String value, MessageType schema) {
        switch (type) {
            case "i32": group.add(at, (int) Long.parseLong(value)); break;
            case "i64": group.add(at, new BigInteger(value).longValue()); break;
            case "f32": group.add(at, (float) number(value)); break;
            case "f64": group.add(at, number(value)); break;
            case "bool": group.add(at, value.equals("1")); break;
            case "bytes": group.add(at, Binary.fromByteArray(bytes(value))); break;
            case "int96": group.add(at, Binary.fromByteArray(int96(Long.parseLong(value)))); break;
            case "list":
                Group list = group.addGroup(at);
                boolean isTwoLevel = schema.getType(at).asGroupType().getType(0).isPrimitive();
                for (String each : value.isEmpty() ? new String[0] : value.split(",")) {
                    if (isTwoLevel) {
                        list.add(0, Integer.parseInt(each));
                    } else {
                        list.addGroup(0).add(0, Integer.parseInt(each));
                    }
                }
                break;
            default: throw new IllegalArgumentException(type);
        }
    }

    private static double number(String value) {
        switch (value) {
            case "nan": return Double.NaN;
            case "inf": return Double.POSITIVE_INFINITY;
            case "-inf": return Double.NEGATIVE_INFINITY;
            default: return Double.parseDouble(value);
        }
    }

    private static byte[] bytes(String hex) {
        byte[] out = new byte[hex.length() / 2];
        for (int at = 0; at < out.length; at++) {
            out[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return out;
    }

    // Converts microseconds since 1970 to nanoseconds of a Julian day.
    private static byte[] int96(long microseconds) {
        long day = 86400000000L;
        ByteBuffer out = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN);
        out.putLong(Math.floorMod(microseconds, day) * 1000).putInt((int) (Math.floorDiv(microseconds, day) + 2440588));
        return out.array();
    }
}
