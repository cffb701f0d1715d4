import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;

/** Asks PostgreSQL's JDBC driver for what tools read about tables, and prints one line for each row. */
public final class Metadata {
    private interface Question {
        ResultSet ask() throws SQLException;
    }

    public static void main(String[] arguments) throws SQLException {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData about = connection.getMetaData();
            String[] kinds = {"TABLE", "VIEW", "MATERIALIZED VIEW", "PARTITIONED TABLE", "FOREIGN TABLE"};
            print("version", () -> null, about.getDatabaseMajorVersion() + " " + about.getMaxColumnNameLength());
            print("schemas", about::getSchemas, "");
            print("schemas like", () -> about.getSchemas(null, "pub%"), "");
            print("catalogs", about::getCatalogs, "");
            print("table types", about::getTableTypes, "");
            print("tables", () -> about.getTables(null, "public", "%", kinds), "");
            print("any tables", () -> about.getTables(null, "public", "par_nt", null), "");
            print("system tables", () -> about.getTables(null, "pg_catalog", "pg_am%", null), "");
            print("columns", () -> about.getColumns(null, "public", "%", "%"), "");
            print("one column", () -> about.getColumns(null, "public", "child", "ta%"), "");
            print("primary keys", () -> about.getPrimaryKeys(null, "public", "child"), "");
            print("imported keys", () -> about.getImportedKeys(null, "public", "child"), "");
            print("exported keys", () -> about.getExportedKeys(null, "public", "parent"), "");
            print("cross reference", () -> about.getCrossReference(null, "public", "parent", null, "public", "child"), "");
            print("indexes", () -> about.getIndexInfo(null, "public", "child", false, true), "");
            print("best row", () -> about.getBestRowIdentifier(null, "public", "child", 0, true), "");
            print("version columns", () -> about.getVersionColumns(null, "public", "child"), "");
            print("types", about::getTypeInfo, "");
            print("own types", () -> about.getUDTs(null, "public", "%", null), "");
            print("procedures", () -> about.getProcedures(null, "public", "%"), "");
            print("functions", () -> about.getFunctions(null, "pg_catalog", "upper"), "");
            print("function columns", () -> about.getFunctionColumns(null, "pg_catalog", "upper", "%"), "");
            print("procedure columns", () -> about.getProcedureColumns(null, "public", "%", "%"), "");
            print("privileges", () -> about.getTablePrivileges(null, "public", "parent"), "");
            print("column privileges", () -> about.getColumnPrivileges(null, "public", "parent", "%"), "");
            print("client information", about::getClientInfoProperties, "");
            print("rows", () -> connection.createStatement().executeQuery("SELECT a, b, n, ts FROM parent"), "");
        }
    }

    private static void print(String name, Question question, String text) {
        StringBuilder out = new StringBuilder("== " + name + "\n" + text + "\n");
        try (ResultSet rows = question.ask()) {
            if (rows != null) {
                ResultSetMetaData columns = rows.getMetaData();
                for (int at = 1; at <= columns.getColumnCount(); at++) {
                    out.append(columns.getColumnName(at)).append(':').append(columns.getColumnTypeName(at)).append('\t');
                }
                out.append('\n');
                while (rows.next()) {
                    for (int at = 1; at <= columns.getColumnCount(); at++) {
                        out.append(rows.getString(at)).append('\t');
                    }
                    out.append('\n');
                }
            }
        } catch (SQLException error) {
            out.append("error ").append(error.getSQLState()).append(' ').append(error.getMessage()).append('\n');
        }
        System.out.print(out);
    }
}
