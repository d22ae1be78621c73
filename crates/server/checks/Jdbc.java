// The calls of a JDBC program: list objects, prepare, fetch in portions, cancel.

import java.sql.*;

public class Jdbc {
    interface Asked {
        ResultSet ask() throws SQLException;
    }

    /** Reads all metadata of one kind, and prints errors. */
    static void catalog(String what, Asked asked) {
        try (ResultSet rows = asked.ask()) {
            while (rows.next()) rows.getString(1);
        } catch (SQLException failed) {
            System.out.println("failed " + what + ": " + failed.getMessage().replace('\n', ' '));
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0], "coscan", "")) {
            DatabaseMetaData about = connection.getMetaData();
            try (ResultSet tables = about.getTables(null, "public", "%", new String[] {"TABLE"})) {
                StringBuilder names = new StringBuilder();
                while (tables.next()) names.append(tables.getString("TABLE_NAME")).append(' ');
                System.out.println("tables " + names.toString().trim());
            }
            try (ResultSet columns = about.getColumns(null, "public", "nation", "%")) {
                int count = 0;
                while (columns.next()) count++;
                System.out.println("columns " + count);
            }
            catalog("primary keys", () -> about.getPrimaryKeys(null, "public", "nation"));
            catalog("imported keys", () -> about.getImportedKeys(null, "public", "nation"));
            catalog("exported keys", () -> about.getExportedKeys(null, "public", "nation"));
            catalog("cross reference", () -> about.getCrossReference(null, "public", "nation", null, "public", "orders"));
            catalog("indexes", () -> about.getIndexInfo(null, "public", "nation", false, true));
            catalog("best row", () -> about.getBestRowIdentifier(null, "public", "nation", DatabaseMetaData.bestRowSession, true));
            catalog("table privileges", () -> about.getTablePrivileges(null, "public", "%"));
            catalog("column privileges", () -> about.getColumnPrivileges(null, "public", "nation", "%"));
            catalog("functions", () -> about.getFunctions(null, "public", "%"));
            catalog("procedures", () -> about.getProcedures(null, "public", "%"));
            catalog("types", () -> about.getTypeInfo());
            catalog("user types", () -> about.getUDTs(null, "public", "%", null));
            catalog("schemas", () -> about.getSchemas());
            catalog("catalogs", () -> about.getCatalogs());
            try (PreparedStatement statement = connection.prepareStatement("SELECT count(*) FROM lineitem WHERE l_orderkey < ?")) {
                for (int run = 0; run < 8; run++) {
                    statement.setLong(1, 1000);
                    try (ResultSet rows = statement.executeQuery()) {
                        rows.next();
                        if (run == 7) System.out.println("prepared " + rows.getLong(1));
                    }
                }
            }
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(1000);
                int count = 0;
                try (ResultSet rows = statement.executeQuery("SELECT l_orderkey, l_extendedprice, l_shipdate FROM lineitem")) {
                    while (rows.next()) count++;
                }
                System.out.println("fetched " + count);
            }
            connection.commit();
            connection.setAutoCommit(true);
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                statement.executeQuery("SELECT count(*) FROM generate_series(1, 1000000000000)");
            } catch (SQLException stopped) {
                System.out.println("stopped " + stopped.getSQLState());
            }
        }
    }
}
